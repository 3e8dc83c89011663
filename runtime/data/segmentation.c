/* SPDX-License-Identifier: MIT
 * Data kind segmentation: a folder images/ of PNG, JPEG and WebP files, and a folder labels/ of PNG files with the same
 * names in which each pixel is its class, or a colour that stands for one. */
#include "ir/support/alloc.h"
#include "runtime/data/learned.h"
#include "runtime/data/picture_data.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_IGNORED = 255, IGNORED = -100 }; /* in files; in y, as cross-entropy has it by default */
enum { LABELS = 256, MOST_COUNTED = 256 };      /* of a byte; files whose pixels are counted where classes are given */
enum { UNKNOWN = -1 };                          /* of a number that no line of a table of labels has */

typedef struct label_color {
    char *name; /* of a class; NULL: it does not count */
    uint8_t rgb[3];
    bool has_color;
    uint8_t label;
} label_color;

typedef struct segmentation {
    tcc__picture_data pictures;
    tcc__file_list labels[TCC_SPLIT_COUNT]; /* paths */
    int ignored;
    bool binary;                 /* labels are 0 and 255, which is class 1 */
    bool colored;                /* label pictures have the colours of their classes, rather than numbers */
    tcc_vec(label_color) colors; /* what is known of classes */
    bool has_table;
    bool unlabelled;                         /* pictures to predict from */
    int16_t table[LABELS];                   /* what a number in label pictures stands for, or UNKNOWN */
    int64_t counts[TCC_SPLIT_COUNT][LABELS]; /* pixels of each label, in the files that were counted */
} segmentation;

/* ---- labels of a picture ---- */

static tcc_status parse_color(tcc_diag *d, const tcc_label_color *from, label_color *out) {
    out->has_color = true;
    char *end;
    const unsigned long value = *from->color == '#' ? strtoul(from->color + 1, &end, 16) : 0;
    if (*from->color != '#' || strlen(from->color) != 7 || *end || from->color[1] == '+' || from->color[1] == '-')
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "the colour of label '%s' is '%s'; one is written as #804080",
                         from->name, from->color);
    for (int c = 0; c < 3; c++) out->rgb[c] = (uint8_t)(value >> (16 - 8 * c));
    return TCC_OK;
}

static tcc_status add_color(tcc_diag *d, const tcc_label_color *from, segmentation *s, int64_t *classes) {
    label_color color = {.label = DEFAULT_IGNORED};
    TCC_TRY(parse_color(d, from, &color));
    for (int i = 0; i < s->colors.count; i++)
        if (!memcmp(s->colors.data[i].rgb, color.rgb, sizeof color.rgb))
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "colour %s is given to two labels", from->color);
    if (strcmp(from->name, "ignored")) {
        if (*classes == DEFAULT_IGNORED)
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "colours are given to more than %d classes", DEFAULT_IGNORED);
        color.label = (uint8_t)(*classes)++;
        if (!(color.name = tcc__strdup(from->name))) return tcc_enomem(d);
    }
    if (tcc_vec_push(&s->colors, color)) return TCC_OK;
    tcc__free(color.name);
    return tcc_enomem(d);
}

/* Colours as labels, in place: a byte a pixel. */
static tcc_status take_colors(tcc_diag *d, const char *path, const segmentation *s, tcc__picture *p) {
    const label_color *last = s->colors.data;
    for (int64_t i = 0; i < p->height * p->width; i++) {
        const uint8_t *rgb = p->pixels + 3 * i;
        for (int k = 0; memcmp(last->rgb, rgb, 3) && k < s->colors.count; k++) last = &s->colors.data[k];
        if (memcmp(last->rgb, rgb, 3))
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0},
                             "colour #%02x%02x%02x at row %lld, column %lld stands for no label", rgb[0], rgb[1],
                             rgb[2], (long long)(i / p->width), (long long)(i % p->width));
        p->pixels[i] = last->label;
    }
    p->channels = 1;
    return TCC_OK;
}

/* Numbers of a table as labels, in place. */
static tcc_status take_numbers(tcc_diag *d, const char *path, const segmentation *s, tcc__picture *p) {
    for (int64_t i = 0; i < p->height * p->width; i++) {
        const int16_t label = s->table[p->pixels[i]];
        if (label == UNKNOWN)
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0},
                             "label %d at row %lld, column %lld is not in the table of labels", p->pixels[i],
                             (long long)(i / p->width), (long long)(i % p->width));
        p->pixels[i] = (uint8_t)label;
    }
    return TCC_OK;
}

static tcc_status load_labels(tcc_diag *d, const char *path, const segmentation *s, tcc__picture *out) {
    TCC_TRY(tcc__picture_load(d, path, s->colored ? TCC__PICTURE_RGB : TCC__PICTURE_LABELS, out));
    if (s->binary)
        for (int64_t i = 0; i < out->height * out->width; i++)
            out->pixels[i] = out->pixels[i] == 255 ? 1 : out->pixels[i] == 1 ? 254 : out->pixels[i];
    tcc_status status = TCC_OK;
    if (s->colored) status = take_colors(d, path, s, out);
    if (s->has_table) status = take_numbers(d, path, s, out);
    if (status != TCC_OK) {
        tcc__free(out->pixels);
        *out = (tcc__picture){0};
    }
    return status;
}

/* ---- tables of labels ---- */

/* The class of this name, which is added where it is new; "ignored" has that of what does not count. */
static tcc_status find_name(tcc_diag *d, segmentation *s, const char *name, int64_t *classes, int *label) {
    *label = DEFAULT_IGNORED;
    if (!strcmp(name, "ignored")) return TCC_OK;
    for (*label = 0; *label < s->colors.count; ++*label)
        if (!strcmp(s->colors.data[*label].name, name)) return TCC_OK;
    if (*classes == DEFAULT_IGNORED)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "a table of labels has more than %d classes", DEFAULT_IGNORED);
    const label_color color = {.name = tcc__strdup(name), .label = (uint8_t)(*classes)++};
    if (!color.name) return tcc_enomem(d);
    if (tcc_vec_push(&s->colors, color)) return TCC_OK;
    tcc__free(color.name);
    return tcc_enomem(d);
}

/* "7 road #804080", changed in place. */
static tcc_status read_line(tcc_diag *d, segmentation *s, char *line, tcc_loc at, int64_t *classes) {
    char *name = line + strcspn(line, " \t"), *end = name + strlen(name), *color = strrchr(name, '#');
    const bool number = name > line && strspn(line, "0123456789") == (size_t)(name - line) && name - line <= 3;
    if (color) end = color;
    while (end > name && strchr(" \t\r", end[-1])) end--;
    name += strspn(name, " \t");
    if (!number || atoi(line) >= LABELS || end <= name)
        return tcc_error(d, TCC_EFORMAT, at,
                         "a line is a number from 0 to 255, a name and perhaps a colour as #804080");
    int label;
    label_color parsed = {0};
    if (color) {
        color[strcspn(color, " \t\r")] = '\0';
        const tcc_label_color from = {.name = name, .color = color};
        TCC_TRY(parse_color(d, &from, &parsed));
    }
    *end = '\0';
    TCC_TRY(find_name(d, s, name, classes, &label));
    if (s->table[atoi(line)] != UNKNOWN)
        return tcc_error(d, TCC_EFORMAT, at, "label %d has a line already", atoi(line));
    s->table[atoi(line)] = (int16_t)label;
    if (!color || label == DEFAULT_IGNORED) return TCC_OK;
    memcpy(s->colors.data[label].rgb, parsed.rgb, sizeof parsed.rgb);
    s->colors.data[label].has_color = true;
    return TCC_OK;
}

static tcc_status read_table(tcc_diag *d, segmentation *s, const char *path, int64_t *classes) {
    tcc__bytes file;
    for (int i = 0; i < LABELS; i++) s->table[i] = UNKNOWN;
    TCC_TRY(tcc__file_load(d, path, &file));
    char *text = tcc__calloc(1, file.size + 1), *line = text, *next;
    tcc_status status = text ? TCC_OK : tcc_enomem(d);
    if (text) memcpy(text, file.data, file.size);
    for (int number = 1; status == TCC_OK && line && *line; number++, line = next) {
        if ((next = strchr(line, '\n'))) *next++ = '\0';
        line += strspn(line, " \t\r");
        if (*line && *line != '#') status = read_line(d, s, line, (tcc_loc){path, number}, classes);
    }
    if (status == TCC_OK && *classes < 2)
        status = tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "has %lld classes; there are at least 2",
                           (long long)*classes);
    tcc__free(text);
    tcc__free(file.data);
    s->has_table = true;
    s->ignored = DEFAULT_IGNORED;
    return status;
}

/* ---- lists ---- */

static size_t stem(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static bool is_of(const char *picture, const char *labels, size_t length) {
    return tcc__picture_is_named(picture) && stem(picture) == length && !memcmp(picture, labels, length);
}

/* FOLDER/labels/NAME.png for FOLDER/images/NAME.jpg, both appended. */
static tcc_status add_pair(tcc_diag *d, const char *images, const char *labels, const char *name,
                           tcc__file_list *pictures, tcc__file_list *label_files) {
    tcc_strbuf b = {0};
    tcc_strbuf_printf(&b, "%s/%.*s.png", labels, (int)stem(name), name);
    char *label = tcc_strbuf_take(&b), *picture = tcc__path_join(images, name);
    tcc_status status = label && picture ? TCC_OK : tcc_enomem(d);
    if (status == TCC_OK && !tcc__file_exists(label))
        status = tcc_error(d, TCC_ENOTFOUND, (tcc_loc){picture, 0}, "has no labels: there is no %s", label);
    if (status == TCC_OK && tcc_vec_push(pictures, picture)) picture = NULL;
    else if (status == TCC_OK) status = tcc_enomem(d);
    if (status == TCC_OK && tcc_vec_push(label_files, label)) label = NULL;
    else if (status == TCC_OK) status = tcc_enomem(d);
    tcc__free(picture);
    tcc__free(label);
    return status;
}

/* Labels without their picture are a mistake, too. `images`: the names of all pictures. */
static tcc_status check_all_used(tcc_diag *d, const char *labels, const char *folder, const tcc__file_list *images) {
    tcc__file_list names = {0};
    tcc_status status = tcc__folder_names(d, labels, false, &names);
    for (int i = 0, at = 0; i < names.count && status == TCC_OK; i++) {
        const char *name = names.data[i];
        int tried = tcc__picture_is_named(name) ? 0 : images->count;
        const bool counts = !tried;
        for (; tried < images->count; tried++, at++) /* the next one is likely the one behind the last */
            if (is_of(images->data[at % images->count], name, stem(name))) break;
        if (counts && tried == images->count)
            status = tcc_error(d, TCC_ENOTFOUND, (tcc_loc){labels, 0}, "labels %s have no picture in %s", name, folder);
    }
    tcc__file_list_free(&names);
    return status;
}

static tcc_status list_pairs(tcc_diag *d, const char *path, tcc__file_list *pictures, tcc__file_list *label_files) {
    tcc__file_list names = {0};
    char *images = tcc__path_join(path, "images"), *labels = tcc__path_join(path, "labels");
    tcc_status status = images && labels ? tcc__folder_names(d, images, false, &names) : tcc_enomem(d);
    for (int i = 0; i < names.count && status == TCC_OK; i++)
        if (tcc__picture_is_named(names.data[i]))
            status = add_pair(d, images, labels, names.data[i], pictures, label_files);
    if (status == TCC_OK && !pictures->count)
        status = tcc_error(d, TCC_EFORMAT, (tcc_loc){images, 0}, "has no .png, .jpg, .jpeg or .webp file");
    if (status == TCC_OK) status = check_all_used(d, labels, images, &names);
    tcc__file_list_free(&names);
    tcc__free(images);
    tcc__free(labels);
    return status;
}

static tcc_status check_size(tcc_diag *d, const char *path, const tcc__picture *labels, const tcc__picture *picture) {
    if (labels->height == picture->height && labels->width == picture->width) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "labels are %lld x %lld, the image %lld x %lld pixels",
                     (long long)labels->width, (long long)labels->height, (long long)picture->width,
                     (long long)picture->height);
}

/* Classes stay, the ignored ones become what cross-entropy leaves out. */
static tcc_status check_classes(tcc_diag *d, const char *path, const segmentation *s, int64_t classes,
                                tcc__picture *labels) {
    for (int64_t i = 0; i < labels->height * labels->width; i++) {
        int label = labels->pixels[i];
        if (label < classes || label == s->ignored) continue;
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0},
                         "label %d at row %lld, column %lld is not below the number of classes, %lld", label,
                         (long long)(i / labels->width), (long long)(i % labels->width), (long long)classes);
    }
    return TCC_OK;
}

static tcc_status check_labels_of(tcc_diag *d, segmentation *s, int split, int i, int64_t classes, bool counts) {
    tcc__picture labels;
    const char *path = s->labels[split].data[i];
    const tcc__picture_found *found = &s->pictures.found[split][i];
    const tcc__picture size = {.height = found->height, .width = found->width};
    if (!counts) TCC_TRY(tcc__picture_check(d, path, &labels));
    else TCC_TRY(load_labels(d, path, s, &labels));
    for (int64_t j = 0; labels.pixels && j < labels.height * labels.width; j++) s->counts[split][labels.pixels[j]]++;
    tcc_status status = check_size(d, path, &labels, &size);
    if (status == TCC_OK && classes && labels.pixels) status = check_classes(d, path, s, classes, &labels);
    tcc__free(labels.pixels);
    return status;
}

/* Labels are as large as their pictures. Those of all files are counted where they say how many classes there are, else
 * those of some. */
static tcc_status check_labels(tcc_diag *d, segmentation *s, int64_t classes) {
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
        const int files = s->labels[split].count, every = !classes ? 1 : (files + MOST_COUNTED - 1) / MOST_COUNTED;
        for (int i = 0; i < files; i++) {
            if (tcc__picture_data_is_bad(&s->pictures, split, i)) continue;
            const tcc_status status = check_labels_of(d, s, split, i, classes, i % every == 0);
            if (status != TCC_OK) TCC_TRY(tcc__picture_data_spoil(&s->pictures, split, i, d, status));
        }
    }
    return TCC_OK;
}

static void leave_out(segmentation *s) {
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
        tcc__file_list *files = &s->labels[split];
        int kept = 0;
        for (int i = 0; i < files->count; i++) {
            if (tcc__picture_data_is_bad(&s->pictures, split, i)) tcc__free(files->data[i]);
            else files->data[kept++] = files->data[i];
        }
        files->count = kept;
    }
}

static bool is_seen(const segmentation *s, int label) {
    return s->counts[TCC_SPLIT_TRAIN][label] || s->counts[TCC_SPLIT_VALIDATION][label];
}

/* Masks of black and white have two classes, though 255 is what is ignored by default. */
static bool is_binary(const segmentation *s, const tcc_data_options *o) {
    for (int i = 1; i < 255; i++)
        if (is_seen(s, i)) return false;
    return is_seen(s, 0) && is_seen(s, 255) && !s->colors.count && !o->has_ignored_label && !o->ignored_label &&
           (!o->classes || o->classes == 2);
}

static tcc_status count_classes(tcc_diag *d, const tcc_data_options *o, segmentation *s, int64_t *classes) {
    if (is_binary(s, o)) {
        s->binary = true;
        s->counts[TCC_SPLIT_TRAIN][1] = s->counts[TCC_SPLIT_TRAIN][255];
        *classes = 2;
    }
    for (int k = LABELS - 1; k >= 0 && !*classes; k--)
        if (is_seen(s, k) && k != s->ignored) *classes = k + 1;
    if (*classes >= 2 || !o->path) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){o->path, 0},
                     "the labels have %lld classes, beside the ignored %d; there "
                     "are at least 2",
                     (long long)*classes, s->ignored);
}

static tcc_status open_segmentation(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data) {
    segmentation *s = data->own = tcc__calloc(1, sizeof *s);
    if (!s) return tcc_enomem(d);
    s->ignored = options->has_ignored_label || options->ignored_label ? options->ignored_label : DEFAULT_IGNORED;
    if (s->ignored < 0 || s->ignored > 255)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "ignored_label is %d; labels are bytes", s->ignored);
    if (options->classes < 0 || options->classes > 256)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "classes is %d; labels are bytes", options->classes);
    if (options->n_label_colors && (options->classes || options->has_ignored_label) && !data->learned)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "label_colors say what classes there are; leave out classes and "
                         "ignored_label");
    if (options->label_table &&
        (options->n_label_colors || ((options->classes || options->has_ignored_label) && !data->learned)))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "label_table says what classes there are; leave out classes, ignored_label and label_colors");
    int64_t *classes = &data->info.classes;
    s->colored = options->n_label_colors > 0;
    for (int i = 0; i < options->n_label_colors; i++) TCC_TRY(add_color(d, &options->label_colors[i], s, classes));
    if (options->label_table) TCC_TRY(read_table(d, s, options->label_table, classes));
    if (data->learned) s->binary = cJSON_HasObjectItem(data->learned, "binary");
    if (options->path) TCC_TRY(list_pairs(d, options->path, &s->pictures.pictures[0], &s->labels[0]));
    s->unlabelled = options->unlabelled;
    if (s->unlabelled) TCC_TRY(tcc__picture_files(d, options->val_path, &s->pictures.pictures[1]));
    else if (options->val_path) TCC_TRY(list_pairs(d, options->val_path, &s->pictures.pictures[1], &s->labels[1]));
    if (!*classes) *classes = options->classes;
    TCC_TRY(tcc__picture_data_check(d, options, &s->pictures));
    TCC_TRY(check_labels(d, s, *classes));
    if (!s->binary) TCC_TRY(count_classes(d, options, s, classes));
    leave_out(s);
    if (!data->learned) {
        if (!(data->counts = tcc__calloc((size_t)*classes, sizeof *data->counts))) return tcc_enomem(d);
        memcpy(data->counts, s->counts[TCC_SPLIT_TRAIN], (size_t)*classes * sizeof *data->counts);
    }
    TCC_TRY(tcc__picture_data_init(d, options, false, data, &s->pictures));
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
        tcc_array *y = split == TCC_SPLIT_TRAIN ? &data->info.y : &data->val_y;
        y->rank = 2;
        y->dims[0] = s->pictures.view[split].height;
        y->dims[1] = s->pictures.view[split].width;
    }
    return TCC_OK;
}

static tcc_status read_pair(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    const segmentation *s = data->own;
    const tcc__view_options *o = &s->pictures.view[sample->split];
    tcc__view view;
    tcc__picture size, labels;
    TCC_TRY(tcc__picture_data_read(d, data, &s->pictures, sample, &view, &size, x));
    for (int64_t i = 0; s->unlabelled && i < o->height * o->width; i++) ((int32_t *)y)[i] = IGNORED;
    if (s->unlabelled) return TCC_OK;
    const char *path = s->labels[tcc__picture_list_of(data, sample)].data[sample->number];
    TCC_TRY(load_labels(d, path, s, &labels));
    tcc_status status = check_size(d, path, &labels, &size);
    if (status == TCC_OK) status = check_classes(d, path, s, data->info.classes, &labels);
    if (status == TCC_OK) tcc__view_labels(o, &view, &labels, IGNORED, y);
    tcc__free(labels.pixels);
    for (int64_t i = 0; i < o->height * o->width; i++)
        if (((int32_t *)y)[i] == s->ignored) ((int32_t *)y)[i] = IGNORED;
    return status;
}

static tcc_status read_segmentation(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    const segmentation *s = data->own;
    return tcc__picture_data_read_any(d, data, &s->pictures, sample, x, y, read_pair);
}

static bool describe_segmentation(const tcc_dataset *data, tcc_strbuf *out) {
    const segmentation *s = data->own;
    if (s->binary) tcc_strbuf_add(out, "labels are 0 and 255: 255 is class 1\n");
    return tcc__picture_data_describe(&s->pictures, out);
}

static const char *skipped_segmentation(const tcc_dataset *data, int64_t i) {
    return tcc__picture_data_skipped(&((const segmentation *)data->own)->pictures, i);
}

static bool learn_segmentation(const tcc_dataset *data, cJSON *to) {
    return !((const segmentation *)data->own)->binary || tcc__learn_number(to, "binary", 1);
}

static const char *label_segmentation(const tcc_dataset *data, int64_t id, size_t *length) {
    const segmentation *s = data->own;
    for (int i = 0; i < s->colors.count; i++) {
        if (!s->colors.data[i].name || s->colors.data[i].label != id) continue;
        *length = strlen(s->colors.data[i].name);
        return s->colors.data[i].name;
    }
    return NULL;
}

static bool color_segmentation(const tcc_dataset *data, int64_t id, uint8_t rgb[3]) {
    const segmentation *s = data->own;
    for (int i = 0; i < s->colors.count; i++) {
        const label_color *c = &s->colors.data[i];
        if (!c->name || c->label != id || !c->has_color) continue;
        memcpy(rgb, c->rgb, sizeof c->rgb);
        return true;
    }
    return false;
}

static const char *name_of_pair(const tcc_dataset *data, tcc_split split, int64_t number) {
    const segmentation *s = data->own;
    return s->pictures.pictures[data->held_out_of ? TCC_SPLIT_TRAIN : split].data[number];
}

static void close_segmentation(tcc_dataset *data) {
    segmentation *s = data->own;
    tcc__picture_data_free(&s->pictures);
    for (int i = 0; i < TCC_SPLIT_COUNT; i++) tcc__file_list_free(&s->labels[i]);
    for (int i = 0; i < s->colors.count; i++) tcc__free(s->colors.data[i].name);
    tcc_vec_free(&s->colors);
    tcc__free(s);
}

const tcc__reader tcc__segmentation_reader = {
    .kind = "segmentation",
    .open = open_segmentation,
    .read = read_segmentation,
    .close = close_segmentation,
    .sample_name = name_of_pair,
    .label = label_segmentation,
    .color = color_segmentation,
    .counts = true,
    .describe = describe_segmentation,
    .skipped = skipped_segmentation,
    .learn = learn_segmentation,
};
