/* SPDX-License-Identifier: MIT
 * Data sets as people have them: files made to look like those of known sets, each trained by a short recipe as it is,
 * to what can be learned from it. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/pictures.h"
#include "harness/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <webp/encode.h>

#define RUN(...) program_run(NULL, "tcc-train", (const char *const[]){__VA_ARGS__, NULL})

/* A file that is written line by line. */
typedef struct lines {
    char *text;
    size_t length;
    FILE *out;
} lines;

static void begin(lines *l) {
    l->out = open_memstream(&l->text, &l->length);
    assert_non_null(l->out);
}

static void end(void **state, lines *l, const char *name, bool zipped) {
    assert_int_equal(fclose(l->out), 0);
    if (zipped) test_write_gzip(state, name, l->text, l->length);
    else test_write(state, name, l->text, l->length);
    free(l->text);
}

/* Numbers from 0 to 1 that look random, the same everywhere. */
static double draw(int i, int what) {
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)what * 40503u;
    x = (x ^ x >> 15) * 2246822519u;
    x = (x ^ x >> 13) * 3266489917u;
    return (double)(x ^ x >> 16) / 4294967296.0;
}

static const char *pick(const char *const *words, int count, int i, int what) {
    return words[(int)(draw(i, what) * count)];
}

/* ---- tables ---- */

/* Names with commas and quotes, missing ages and cabins, tickets; who survives is decided by sex and class. */
static void titanic(void **state) {
    for (int test = 0; test < 2; test++) {
        lines l;
        begin(&l);
        fprintf(l.out, "PassengerId,%sPclass,Name,Sex,Age,Ticket,Fare,Cabin,Embarked\r\n", test ? "" : "Survived,");
        for (int i = 0; i < (test ? 20 : 300); i++) {
            const bool female = draw(i, 1) < 0.4;
            const int class = 1 + (int)(3 * draw(i, 2));
            fprintf(l.out, "%d,", i + 1);
            if (!test) fprintf(l.out, "%d,", female || class == 1);
            fprintf(l.out, "%d,\"Kelly, Mr. %d \"\"Jim\"\"\",%s,", class, i, female ? "female" : "male");
            if (draw(i, 3) > 0.2) fprintf(l.out, "%.1f", 70 * draw(i, 4));
            fprintf(l.out, ",A/5 %d,", 1000 + i);
            if (!test || i) fprintf(l.out, "%.4f", 80 * draw(i, 5));
            fprintf(l.out, ",%s,%s\r\n", i % 5 ? "" : "C85",
                    i % 61 == 7 ? "" : pick((const char *[]){"S", "C", "Q"}, 3, i, 6));
        }
        end(state, &l, test ? "test.csv" : "train.csv", false);
    }
}

/* No header, blanks behind the commas, a question mark where something is missing. */
static void adult(void **state) {
    static const char *const work[] = {"State-gov", "Private", "?", "Self-emp-not-inc"};
    lines l;
    begin(&l);
    for (int i = 0; i < 300; i++) {
        const int school = (int)(16 * draw(i, 1));
        fprintf(l.out, "%d, %s, %d, %d, %s, %s\n", 17 + (int)(60 * draw(i, 2)), pick(work, 4, i, 3), 70000 + i * 13,
                school, i % 3 ? "Male" : "Female", school > 8 ? ">50K" : "<=50K");
    }
    end(state, &l, "adult.data", false);
}

/* A number to predict, a category that matters, missing cells. */
static void housing(void **state) {
    static const char *const places[] = {"INLAND", "NEAR BAY", "<1H OCEAN"};
    lines l;
    begin(&l);
    fprintf(l.out, "longitude,total_bedrooms,median_income,ocean_proximity,median_house_value\n");
    for (int i = 0; i < 300; i++) {
        const int place = (int)(3 * draw(i, 1));
        const double income = 10 * draw(i, 2);
        fprintf(l.out, "%.2f,", -124 + 10 * draw(i, 3));
        if (i % 20) fprintf(l.out, "%.1f", 1000 * draw(i, 4));
        fprintf(l.out, ",%.4f,%s,%.3f\n", income, places[place], 0.3 * income + place);
    }
    end(state, &l, "housing.csv", false);
}

/* Semicolons, and quotes around the names. */
static void wine(void **state) {
    lines l;
    begin(&l);
    fprintf(l.out, "\"fixed acidity\";\"alcohol\";\"quality\"\n");
    for (int i = 0; i < 300; i++) {
        const double alcohol = 8 + 6 * draw(i, 1);
        fprintf(l.out, "%.1f;%.1f;%d\n", 4 + 8 * draw(i, 2), alcohol, alcohol > 11 ? 7 : 5);
    }
    end(state, &l, "winequality.csv", false);
}

/* Tabs, gzipped, without a header. */
static void iris(void **state) {
    static const char *const kinds[] = {"Iris-setosa", "Iris-versicolor", "Iris-virginica"};
    lines l;
    begin(&l);
    for (int i = 0; i < 150; i++)
        fprintf(l.out, "%.1f\t%.1f\t%s\n", 5 + draw(i, 1), 1 + 2 * (i / 50) + draw(i, 2), kinds[i / 50]);
    end(state, &l, "iris.tsv.gz", true);
}

/* Categories alone, the target in front. */
static void mushrooms(void **state) {
    lines l;
    begin(&l);
    fprintf(l.out, "class,cap-shape,odor,bruises\n");
    for (int i = 0; i < 200; i++) {
        const char *odor = pick((const char *[]){"n", "a", "f"}, 3, i, 1);
        fprintf(l.out, "%s,%s,%s,%s\n", *odor == 'f' ? "p" : "e", pick((const char *[]){"x", "b", "?"}, 3, i, 2), odor,
                i % 2 ? "t" : "f");
    }
    end(state, &l, "mushrooms.csv", false);
}

/* Hours in time, the last of which are held out. */
static void bikes(void **state) {
    lines l;
    begin(&l);
    fprintf(l.out, "datetime,season,temp,count\n");
    for (int i = 0; i < 240; i++)
        fprintf(l.out, "2011-01-%02d %02d:00:00,%d,%.2f,%.2f\n", 1 + i / 24, i % 24, 1 + i % 4, 20 * draw(i, 1),
                0.1 * 20 * draw(i, 1));
    end(state, &l, "bikes.csv", false);
}

/* Ids of many values that decide alone. */
static void ratings(void **state) {
    lines l;
    begin(&l);
    fprintf(l.out, "user,movie,liked\n");
    for (int i = 0; i < 600; i++) {
        const int user = (int)(40 * draw(i, 1));
        fprintf(l.out, "u%d,%d,%s\n", user, (int)(50 * draw(i, 2)), user % 3 ? "yes" : "no");
    }
    end(state, &l, "ratings.csv", false);
}

/* Rows of one patient belong together; few are ill, and rows count differently. */
static void patients(void **state) {
    lines l;
    begin(&l);
    fprintf(l.out, "patient,marker,weight,ill\n");
    for (int i = 0; i < 400; i++)
        fprintf(l.out, "P%d,%.3f,%.1f,%d\n", i / 4, draw(i, 1), 0.5 + draw(i, 2), draw(i, 1) > 0.8);
    end(state, &l, "patients.csv", false);
}

/* ---- pictures and tokens ---- */

enum { SIDE = 16 };

static const char *write_webp(void **state, const char *name, const uint8_t *pixels) {
    uint8_t *bytes;
    const size_t size = WebPEncodeLosslessRGB(pixels, SIDE, SIDE, 3 * SIDE, &bytes);
    const char *path = test_write(state, name, bytes, size);
    WebPFree(bytes);
    return path;
}

/* Bright above or below; half of the JPEG files are stored upside down, as EXIF says. One file is no picture. */
static void photos(void **state) {
    static const uint8_t exif[] = {0xFF, 0xE1, 0, 34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, '*', 0, 0, 0, 8,
                                   0,    1,    1, 0x12, 0,   3,   0,   0,   0, 1, 0,   3,   0, 0,   0, 0, 0, 0};
    for (int i = 0; i < 60; i++) {
        uint8_t pixels[3 * SIDE * SIDE];
        char name[64];
        const bool above = i % 2, turned = i % 3 == 1;
        for (int j = 0; j < 3 * SIDE * SIDE; j++)
            pixels[j] = (uint8_t)((j / (3 * SIDE) < SIDE / 2) == (above != turned) ? 200 + i % 7 : 20 + j % 7);
        snprintf(name, sizeof name, "photos/%s/%02d.%s", above ? "above" : "below", i,
                 (const char *[]){"png", "jpg", "webp"}[i % 3]);
        if (i % 3 == 0) write_png(state, name, SIDE, SIDE, 3, pixels);
        if (i % 3 == 2) write_webp(state, name, pixels);
        if (!turned) continue;
        size_t size;
        char *file = test_read(write_jpeg(state, name, SIDE, SIDE, pixels), &size), *whole = malloc(size + sizeof exif);
        memcpy(whole, file, 2);
        memcpy(whole + 2, exif, sizeof exif);
        memcpy(whole + 2 + sizeof exif, file + 2, size - 2);
        test_write(state, name, whole, size + sizeof exif);
        free(file);
        free(whole);
    }
    test_write_text(state, "photos/above/broken.jpg", "<html>404 not found</html>");
}

/* One class is stored as inks, as a file of ImageNet is; the other as light. */
static void inks(void **state) {
    for (int i = 0; i < 40; i++) {
        uint8_t light[3 * SIDE * SIDE], ink[4 * SIDE * SIDE] = {0};
        char name[64];
        for (int j = 0; j < SIDE * SIDE; j++)
            for (int c = 0; c < 3; c++) { /* red or blue, of changing strength */
                const bool bright = c == (i % 2 ? 0 : 2);
                light[3 * j + c] = (uint8_t)(bright ? 180 + i : 20 + j % 7);
                ink[4 * j + c] = (uint8_t)(255 - light[3 * j + c]);
            }
        snprintf(name, sizeof name, "inks/%s/%02d.jpg", i % 2 ? "red" : "blue", i);
        if (i % 4 < 2) write_cmyk_jpeg(state, name, SIDE, SIDE, ink, i % 8 < 4);
        else write_jpeg(state, name, SIDE, SIDE, light);
    }
}

/* Masks with a palette, in which objects have a border of 255, as VOC has them. */
static void masks(void **state) {
    enum { WIDE = 32, PIXELS = WIDE * WIDE, COLORS = 256 };
    uint8_t picture[3 * PIXELS], mask[PIXELS], colors[3 * COLORS] = {0, 0, 0, 128, 0, 0, 0, 128, 0};
    memset(colors + 3 * 255, 224, 3);
    for (int i = 0; i < 12; i++) {
        char name[64];
        for (int j = 0; j < PIXELS; j++) {
            const int row = abs(j / WIDE - 12 - i % 6), column = abs(j % WIDE - 11 - i), class = 1 + i % 2;
            const int away = row > column ? row : column;
            mask[j] = (uint8_t)(away < 8 ? class : away == 8 ? 255 : 0);
            for (int c = 0; c < 3; c++) picture[3 * j + c] = (uint8_t)(away < 8 && c == class ? 220 : 30 + (j + i) % 9);
        }
        snprintf(name, sizeof name, "voc/images/2007_%06d.jpg", i);
        write_jpeg(state, name, WIDE, WIDE, picture);
        snprintf(name, sizeof name, "voc/labels/2007_%06d.png", i);
        write_palette_png(state, name, WIDE, WIDE, mask, colors, COLORS);
    }
}

/* 7 tokens that follow one another, in two shards as llm.c writes them. */
static void shards(void **state) {
    enum { HEADER = 512, COUNT = 700 }; /* in tokens of 2 bytes */
    static uint16_t file[HEADER + COUNT];
    const uint32_t header[3] = {20240520, 1, COUNT};
    memcpy(file, header, sizeof header);
    for (int i = 0; i < COUNT; i++) file[HEADER + i] = (uint16_t)(i % 7);
    test_write(state, "tokens/train_000.bin", file, sizeof file);
    test_write(state, "tokens/train_001.bin", file, sizeof file);
}

static void array(void **state) {
    enum { COUNT = 1400 };
    static uint8_t file[128 + 2 * COUNT] = "\x93NUMPY\1";
    static const char header[] = "{'descr': '<u2', 'fortran_order': False, 'shape': (1400,), }";
    memset(file + 8, ' ', 120);
    file[8] = 118;
    file[9] = 0;
    memcpy(file + 10, header, sizeof header - 1);
    file[127] = '\n';
    for (int i = 0; i < COUNT; i++) file[128 + 2 * i] = (uint8_t)(i % 5);
    test_write(state, "tokens.npy", file, sizeof file);
}

/* ---- training ---- */

static const struct set {
    const char *name;
    void (*write)(void **state);
    const char *data; /* of the recipe, but for what is everywhere */
    const char *more; /* of it */
    const char *said; /* by tcc-train data */
    double loss;      /* of validation: below this it has learned */
} sets[] = {
    {"titanic", titanic, "kind: csv, path: train.csv, label: Survived, missing: mean, columns: {PassengerId: drop}", "",
     "Name                     drop, 270 different texts", 0.1},
    {"adult", adult, "kind: csv, path: adult.data, missing: category", "",
     "4 values: (missing), Private, Self-emp-not-inc, State", 0.2},
    {"housing", housing, "kind: csv, path: housing.csv, regression: true, missing: mean", "", "3 values: <1H OCEAN",
     0.1},
    {"wine", wine, "kind: csv, path: winequality.csv", "", "classes (2): 5 ", 0.2},
    {"iris", iris, "kind: csv, path: iris.tsv.gz, val_split: 0.2", "", "Iris-versicolor", 0.1},
    {"mushrooms", mushrooms, "kind: csv, path: mushrooms.csv, label: class", "", "2 values: f, t", 0.1},
    {"bikes", bikes, "kind: csv, path: bikes.csv, regression: true, columns: {datetime: time, season: category}", "",
     "datetime                 time", 0.05},
    {"ratings", ratings, "kind: csv, path: ratings.csv, columns: {movie: category}", "", "40 values, embedded: u0, u1",
     0.3},
    {"patients", patients, "kind: csv, path: patients.csv, columns: {patient: group, weight: weight}",
     ", class_weights: balanced", "patient                  group", 0.3},
    {"photos", photos, "kind: images, path: photos, on_bad: skip, size: [8, 8]", "", "broken.jpg", 0.1},
    {"inks", inks, "kind: images, path: inks, size: [8, 8]", "", "blue", 0.1},
    {"masks", masks, "kind: segmentation, path: voc", "", "classes (3): 0 ", 0.3},
    {"shards", shards, "kind: tokens, path: \"tokens/train_*.bin\"", "", "tokens: 1400 in 2 files, of 2 bytes (llm.c)",
     0.5},
    {"array", array, "kind: tokens, path: tokens.npy", "", "tokens: 1400 in 1 file, of 2 bytes (npy)", 0.5},
};

static const char *write_recipe(void **state, const struct set *s) {
    static const struct {
        const char *kind, *model;
        int batch, steps;
        double lr;
    } by_kind[] = {{"tokens", "{name: gpt, layers: 1, heads: 1, width: 16, context: 8}", 8, 60, 0.02},
                   {"segmentation", "{name: segformer-b0}", 4, 40, 0.002},
                   {"", "{name: mlp, hidden: [16]}", 20, 150, 0.02}};
    char text[1024];
    int i = 0;
    while (!strstr(s->data, by_kind[i].kind)) i++;
    snprintf(text, sizeof text,
             "model: %s\n"
             "data: {%s, batch_size: %d}\n"
             "optimizer: {lr: %g}\n"
             "training: {max_steps: %d, log_every: 1000%s}\n",
             by_kind[i].model, s->data, by_kind[i].batch, by_kind[i].lr, by_kind[i].steps, s->more);
    return test_write_text(state, "r.yaml", text);
}

static double number_behind(const char *text, const char *what) {
    const char *at = strstr(text, what);
    if (!at) fail_msg("no '%s' in:\n%s", what, text);
    return strtod(at + strlen(what), NULL);
}

static void each_is_trained_as_it_is(void **state) {
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const struct set *s = &sets[i];
        s->write(state);
        char folder[64];
        snprintf(folder, sizeof folder, "run-%s", s->name);
        const char *recipe = write_recipe(state, s), *run = test_path(state, folder);
        program_result told = RUN("data", recipe);
        if (told.status || !strstr(told.out, s->said)) fail_msg("%s: %s%s", s->name, told.out, told.err);
        program_result r = RUN("--device", "cpu", "--run-dir", run, recipe);
        if (r.status) fail_msg("%s: exit status %d:\n%s%s", s->name, r.status, r.out, r.err);
        const double loss = number_behind(r.out, "val_loss ");
        if (!(loss < s->loss)) fail_msg("%s: val_loss %g:\n%s", s->name, loss, r.out);
        if (!strstr(r.out, s->said)) fail_msg("%s: the run does not say it:\n%s", s->name, r.out);
        program_result again = RUN("eval", "--device", "cpu", run); /* by what it has learned of the data */
        if (again.status || fabs(number_behind(again.out, "val_loss ") - loss) > 1e-4)
            fail_msg("%s: %g in training; evaluated:\n%s%s", s->name, loss, again.out, again.err);
        program_free(&told);
        program_free(&r);
        program_free(&again);
    }
}

static void a_test_set_has_no_targets(void **state) {
    titanic(state);
    const char *recipe = write_recipe(state, &sets[0]), *run = test_path(state, "run");
    program_result r = RUN("--device", "cpu", "--quiet", "--run-dir", run, recipe);
    if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    program_result p = RUN("predict", "--device", "cpu", run, test_path(state, "test.csv"));
    int lines = 0, survived = 0;
    for (const char *line = p.out; *line; line += strcspn(line, "\n") + 1, lines++) {
        const bool female = draw(lines, 1) < 0.4, first = (int)(3 * draw(lines, 2)) == 0;
        survived += (*line == '1') == (female || first);
    }
    if (p.status || lines != 20 || survived < 19)
        fail_msg("exit status %d, %d of 20 right:\n%s%s", p.status, survived, p.out, p.err);
    program_free(&r);
    program_free(&p);
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(each_is_trained_as_it_is),
        FOLDER_TEST(a_test_set_has_no_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
