/* SPDX-License-Identifier: MIT
 * The cache on disk: kept over processes, dropped by age, shared by many writers, and no more than a message where the
 * file is damaged, foreign, locked or full. */
#include "harness/check.h"
#include "harness/files.h"

#include "ir/support/alloc.h"
#include "runtime/cache/cache.h"
#include "runtime/cache/database.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *folder;
static char file[256], told[512];

static int set_up(void **state) {
    if (test_folder_create(state)) return -1;
    folder = *state;
    snprintf(file, sizeof file, "%s/cache.sqlite", folder);
    unsetenv("TCC_CACHE_DISABLE");
    unsetenv("TCC_CACHE_MAX");
    *told = 0;
    return 0;
}

static void tell(void *user, const char *text) {
    (void)user;
    snprintf(told, sizeof told, "%s", text);
}

static tcc_status try_open(tcc_diag *d, int64_t max_bytes, tcc_cache **out) {
    return tcc_cache_open(d, &(tcc_cache_options){folder, max_bytes, tell, NULL}, out);
}

static tcc_cache *open_cache(void) {
    tcc_diag d = {0};
    tcc_cache *c;
    assert_ok(try_open(&d, 0, &c), &d);
    assert_non_null(c);
    return c;
}

static void expect_refusal(tcc_status wanted, const char *words) {
    tcc_diag d = {0};
    tcc_cache *c;
    assert_int_equal(try_open(&d, 0, &c), wanted);
    assert_null(c);
    if (!strstr(tcc_diag_text(&d), words)) fail_msg("'%s' lacks '%s'", tcc_diag_text(&d), words);
    tcc_diag_clear(&d);
}

static tcc_cache_key key_of(const char *kernel, const char *device) {
    return (tcc_cache_key){3, {{"llvm", "19.1.7"}, {"device", device}, {"kernel", kernel}}};
}

static void put(tcc_cache *c, const char *kernel, const char *value) {
    const tcc_cache_key key = key_of(kernel, "cpu");
    tcc_cache_put(c, TCC_CACHE_KERNEL, &key, value, (int64_t)strlen(value) + 1, 1000000);
}

/* What there is for a kernel; "" for nothing. Borrowed until the next call. */
static const char *get_on(tcc_cache *c, const char *kernel, const char *device) {
    static char text[4096];
    const tcc_cache_key key = key_of(kernel, device);
    void *value;
    int64_t size;
    *text = 0;
    if (!tcc_cache_get(c, TCC_CACHE_KERNEL, &key, &value, &size)) return text;
    assert_in_range(size, 1, sizeof text);
    memcpy(text, value, (size_t)size);
    tcc__free(value);
    return text;
}
static const char *get(tcc_cache *c, const char *kernel) { return get_on(c, kernel, "cpu"); }

static void test_kept(void **state) {
    (void)state;
    tcc_cache *c = open_cache();
    assert_string_equal(get(c, "a"), "");
    put(c, "a", "code of a");
    assert_string_equal(get(c, "a"), "code of a"); /* not written yet */
    tcc_cache_close(c);
    c = open_cache();
    assert_string_equal(get(c, "a"), "code of a");
    assert_string_equal(get_on(c, "a", "gpu"), "");
    assert_string_equal(get(c, "b"), "");
    put(c, "a", "newer code of a");
    tcc_cache_flush(c);
    assert_string_equal(get(c, "a"), "newer code of a");
    tcc_cache_close(c);
    struct stat info;
    assert_int_equal(stat(file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_string_equal(told, "");
}

static void test_no_part_may_differ(void **state) {
    (void)state;
    tcc_cache *c = open_cache();
    tcc_cache_key key = key_of("a", "cpu"), other = key;
    void *value;
    int64_t size;
    tcc_cache_put(c, TCC_CACHE_CHOICE, &key, "x", 1, 1);
    for (int i = 0; i < 6; i++) { /* each name, each text */
        other = key;
        if (i % 2) other.parts[i / 2].name = "another";
        else other.parts[i / 2].text = "another";
        assert_false(tcc_cache_get(c, TCC_CACHE_CHOICE, &other, &value, &size));
    }
    other = key, other.count--;
    assert_false(tcc_cache_get(c, TCC_CACHE_CHOICE, &other, &value, &size));
    assert_false(tcc_cache_get(c, TCC_CACHE_KERNEL, &key, &value, &size));
    assert_true(tcc_cache_get(c, TCC_CACHE_CHOICE, &key, &value, &size));
    tcc__free(value);
    tcc_cache_close(c);
}

static void test_oldest_go_first(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_cache *c;
    static char large[1000];
    char name[16];
    memset(large, 'x', sizeof large - 1);
    assert_ok(try_open(&d, 10000, &c), &d);
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "k%d", i);
        put(c, name, large);
        tcc_cache_flush(c);
    }
    assert_string_equal(get(c, "k0"), "");
    assert_string_equal(get(c, "k11"), large);
    int left = 0;
    for (int i = 0; i < 12; i++) snprintf(name, sizeof name, "k%d", i), left += *get(c, name) != 0;
    assert_in_range(left, 9, 10);
    tcc_cache_close(c);
}

static void test_switched_off(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_cache *c;
    setenv("TCC_CACHE_DISABLE", "1", 1);
    assert_ok(try_open(&d, 0, &c), &d);
    assert_null(c);
    assert_string_equal(get(NULL, "a"), ""); /* every function takes no cache */
    put(NULL, "a", "b");
    tcc_cache_flush(NULL);
    tcc_cache_close(NULL);
    unsetenv("TCC_CACHE_DISABLE");
    setenv("TCC_CACHE_MAX", "two", 1);
    expect_refusal(TCC_EINVAL, "TCC_CACHE_MAX=two");
    unsetenv("TCC_CACHE_MAX");
}

static void write_file(const char *text, size_t size) {
    const int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
}

static void test_refused(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_database *db;
    write_file("", 0);
    assert_ok(tcc_database_open(&d, file, false, 100, &db), &d);
    assert_ok(tcc_database_run(db, &d, "CREATE TABLE mine(x)"), &d);
    tcc_database_close(db);
    expect_refusal(TCC_EFORMAT, "another program");
    unlink(file);
    tcc_cache_close(open_cache());
    assert_ok(tcc_database_open(&d, file, false, 100, &db), &d);
    assert_ok(tcc_database_run(db, &d, "PRAGMA user_version = 2"), &d);
    tcc_database_close(db);
    expect_refusal(TCC_EFORMAT, "version 2");
    unlink(file);
    tcc_cache_close(open_cache());
    chmod(file, 0620);
    expect_refusal(TCC_EUNSUPPORTED, "other users may write");
    chmod(file, 0600);
    chmod(folder, 0777);
    expect_refusal(TCC_EUNSUPPORTED, "other users may write");
    chmod(folder, 0700);
    if (!geteuid()) {
        assert_int_equal(chown(file, 1, 1), 0);
        expect_refusal(TCC_EUNSUPPORTED, "belongs to user 1");
    }
    unlink(file);
    assert_int_equal(symlink("/tmp/elsewhere", file), 0);
    expect_refusal(TCC_EIO, "symbolic link");
}

static void test_locked(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_database *db;
    tcc_cache *c = open_cache();
    put(c, "a", "1");
    tcc_cache_flush(c);
    assert_ok(tcc_database_open(&d, file, false, 100, &db), &d);
    assert_ok(tcc_database_run(db, &d, "BEGIN EXCLUSIVE"), &d);
    assert_string_equal(get(c, "a"), "");
    if (!strstr(told, "locked")) fail_msg("'%s'", told);
    tcc_database_close(db);
    assert_string_equal(get(c, "a"), ""); /* given up for this run */
    tcc_cache_close(c);
    c = open_cache();
    assert_string_equal(get(c, "a"), "1");
    tcc_cache_close(c);
}

static void make_sample(void) {
    char name[16], value[300];
    tcc_cache *c = open_cache();
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "k%d", i);
        memset(value, 'a' + i % 26, sizeof value - 1);
        value[sizeof value - 1] = 0;
        put(c, name, value);
    }
    tcc_cache_close(c);
}

/* Reads and writes all of the sample: what is found must be right. */
static void use_damaged(void) {
    char name[16], value[300];
    tcc_diag d = {0};
    tcc_cache *c;
    if (try_open(&d, 0, &c) == TCC_OK) {
        for (int i = 0; i < 40; i++) {
            snprintf(name, sizeof name, "k%d", i);
            memset(value, 'a' + i % 26, sizeof value - 1);
            value[sizeof value - 1] = 0;
            const char *found = get(c, name);
            if (*found) assert_string_equal(found, value);
        }
        put(c, "new", "new");
        tcc_cache_close(c);
    } else {
        assert_true(*tcc_diag_text(&d) != 0);
    }
    tcc_diag_clear(&d);
}

static void test_damaged(void **state) {
    (void)state;
    make_sample();
    size_t all;
    char *bytes = test_read(file, &all);
    srandom(7);
    for (int i = 0; i < 100; i++) {
        uint8_t *copy = malloc(all);
        memcpy(copy, bytes, all);
        size_t size = all;
        if (i % 3 == 0) size = (size_t)random() % size;
        else
            for (int k = 0; k < i % 5 + 1; k++) copy[(size_t)random() % size] ^= (uint8_t)(1 << random() % 8);
        write_file((char *)copy, size);
        free(copy);
        use_damaged();
    }
    free(bytes);
}

/* What is damaged beyond use is begun anew, at once or by the next run. */
static void test_heals(void **state) {
    (void)state;
    char text[200] = "this is no database, and never was one";
    write_file(text, sizeof text);
    for (int run = 0; run < 2; run++) {
        tcc_cache *c = open_cache();
        assert_string_equal(get(c, "a"), run ? "b" : "");
        put(c, "a", "b");
        tcc_cache_close(c);
    }
    make_sample();
    size_t all;
    char *bytes = test_read(file, &all);
    memset(bytes + 4096, 0xff, all - 4096); /* all but the first page */
    write_file(bytes, all);
    free(bytes);
    use_damaged();
    tcc_cache *c = open_cache();
    put(c, "a", "c");
    tcc_cache_close(c);
    c = open_cache();
    assert_string_equal(get(c, "a"), "c");
    tcc_cache_close(c);
}

static void test_read_only(void **state) {
    (void)state;
    make_sample();
    if (!geteuid()) { /* who may write anything anyway */
        print_message("[  SKIPPED ] a file that cannot be written: this user may write every file\n");
        return;
    }
    chmod(file, 0400);
    tcc_cache *c = open_cache();
    assert_true(*get(c, "k1") != 0);
    put(c, "new", "new");
    tcc_cache_close(c);
    if (!strstr(told, "cannot be written")) fail_msg("'%s'", told);
}

/* In a process of its own, whose files may not grow. */
static void test_full_disk(void **state) {
    (void)state;
    make_sample();
    fflush(NULL);
    const pid_t child = fork();
    if (!child) {
        static char large[200000];
        memset(large, 'y', sizeof large - 1);
        signal(SIGXFSZ, SIG_IGN);
        tcc_cache *c = open_cache();
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){40000, 40000});
        put(c, "large", large);
        tcc_cache_flush(c);
        const bool ok = *told && !*get(c, "k1"); /* given up */
        tcc_cache_close(c);
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    tcc_cache *c = open_cache();
    assert_true(*get(c, "k1") != 0); /* nothing is lost */
    assert_string_equal(get(c, "large"), "");
    tcc_cache_close(c);
}

enum { WRITERS = 8, EACH = 10 };

static void write_as(int writer) {
    char name[32];
    tcc_cache *c = open_cache();
    for (int i = 0; i < EACH; i++) {
        snprintf(name, sizeof name, "w%d.%d", writer, i);
        put(c, name, name);
        if (i % 3 == 0) tcc_cache_flush(c);
    }
    tcc_cache_close(c);
}

static void test_many_writers(void **state) {
    (void)state;
    pid_t children[WRITERS];
    fflush(NULL);
    for (int w = 0; w < WRITERS; w++) {
        children[w] = fork();
        if (children[w]) continue;
        write_as(w);
        _exit(*told ? 1 : 0);
    }
    for (int w = 0; w < WRITERS; w++) {
        int status;
        assert_int_equal(waitpid(children[w], &status, 0), children[w]);
        assert_int_equal(status, 0);
    }
    char name[32];
    tcc_cache *c = open_cache();
    for (int i = 0; i < WRITERS * EACH; i++) {
        snprintf(name, sizeof name, "w%d.%d", i / EACH, i % EACH);
        assert_string_equal(get(c, name), name);
    }
    tcc_cache_close(c);
}

static void test_killed_writers(void **state) {
    (void)state;
    tcc_cache *c = open_cache();
    put(c, "before", "there before");
    tcc_cache_close(c);
    srandom(3);
    for (int i = 0; i < 20; i++) {
        fflush(NULL);
        const pid_t child = fork();
        if (!child) {
            for (int w = 0;; w++) write_as(100 * i + w);
        }
        usleep((useconds_t)(random() % 20000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        c = open_cache();
        assert_string_equal(get(c, "before"), "there before");
        tcc_cache_close(c);
    }
    tcc_diag d = {0};
    tcc_database *db;
    tcc_query *q;
    bool row;
    assert_ok(tcc_database_open(&d, file, false, 100, &db), &d);
    assert_ok(tcc_query_begin(db, &d, &q, "PRAGMA integrity_check", ""), &d);
    assert_ok(tcc_query_step(q, &d, &row), &d);
    assert_string_equal(tcc_query_text(q, 0), "ok");
    tcc_query_end(q);
    tcc_database_close(db);
    assert_string_equal(told, "");
}

static void test_claims(void **state) {
    (void)state;
    tcc_cache *c = open_cache();
    const tcc_cache_key a = key_of("a", "cpu"), b = key_of("b", "cpu");
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (!child) { /* holds a claim until it is killed */
        tcc_cache *own = open_cache();
        const tcc_cache_claim claim = tcc_cache_wait(own, TCC_CACHE_KERNEL, &a, 0);
        if (write(ready[1], claim.fd >= 0 ? "y" : "n", 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    tcc_cache_claim none = tcc_cache_wait(c, TCC_CACHE_KERNEL, &a, 30), other, mine;
    assert_int_equal(none.fd, -1);
    other = tcc_cache_wait(c, TCC_CACHE_KERNEL, &b, 0);
    assert_true(other.fd >= 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    mine = tcc_cache_wait(c, TCC_CACHE_KERNEL, &a, 1000);
    assert_true(mine.fd >= 0);
    tcc_cache_release(&mine);
    tcc_cache_release(&other);
    tcc_cache_release(&none);
    tcc_cache_close(c);
    close(ready[0]);
    close(ready[1]);
}

static void expect_words(tcc_strbuf *text, const char *words) {
    if (!text->text || !strstr(text->text, words)) fail_msg("'%s' lacks '%s'", text->text, words);
}

static void test_tools(void **state) {
    (void)state;
    tcc_diag d = {0};
    tcc_strbuf text = {0};
    tcc_cache *c = open_cache();
    put(c, "a", "one");
    tcc_cache_flush(c);
    const tcc_cache_key other = key_of("a", "another cpu");
    tcc_cache_put(c, TCC_CACHE_KERNEL, &other, "two", 4, 1000);
    tcc_cache_flush(c);
    assert_ok(tcc_cache_print_stat(c, &d, &text), &d);
    expect_words(&text, "2 kernel");
    expect_words(&text, "2.0 GiB");
    tcc_strbuf_free(&text);
    assert_ok(tcc_cache_print_list(c, &d, &text), &d);
    expect_words(&text, "device=another cpu");
    tcc_strbuf_free(&text);
    assert_ok(tcc_cache_print_why(c, &d, NULL, &text), &d);
    expect_words(&text, "device is      another cpu");
    expect_words(&text, "instead of cpu");
    assert_null(strstr(text.text, "llvm"));
    tcc_strbuf_free(&text);
    assert_int_equal(tcc_cache_print_why(c, &d, "zz", &text), TCC_ENOTFOUND);
    tcc_diag_clear(&d);
    tcc_strbuf_free(&text);
    tcc_cache_close(c);
}

static void test_export_and_import(void **state) {
    (void)state;
    char path[300], moved[300];
    tcc_diag d = {0};
    tcc_strbuf text = {0};
    tcc_cache *c = open_cache();
    const tcc_cache_key other = key_of("a", "another cpu"), facts = {1, {{"device", "cpu"}}};
    put(c, "a", "one");
    put(c, "b", "two");
    tcc_cache_put(c, TCC_CACHE_KERNEL, &other, "three", 6, 1000);
    tcc_cache_flush(c);
    snprintf(path, sizeof path, "%s/exported", folder);
    assert_ok(tcc_cache_copy_out(c, &d, path), &d);
    assert_int_equal(tcc_cache_copy_out(c, &d, path), TCC_EIO); /* it is there */
    tcc_diag_clear(&d);
    tcc_cache_close(c);
    snprintf(moved, sizeof moved, "%s.old", file);
    assert_int_equal(rename(file, moved), 0);

    tcc_database *db; /* one of the three is damaged */
    assert_ok(tcc_database_open(&d, path, false, 100, &db), &d);
    assert_ok(tcc_database_run(db, &d, "UPDATE entries SET value = 'twp' WHERE id = 2"), &d);
    tcc_database_close(db);
    c = open_cache();
    assert_ok(tcc_cache_take_in(c, &d, path, &facts, &text), &d);
    expect_words(&text, "1 taken");
    expect_words(&text, "1 refused: damaged");
    expect_words(&text, "1 refused: made for another machine or version (device is another cpu there and cpu here)");
    assert_string_equal(get(c, "a"), "one");
    assert_string_equal(get(c, "b"), "");
    assert_string_equal(get_on(c, "a", "another cpu"), "");
    tcc_strbuf_free(&text);
    assert_ok(tcc_cache_take_in(c, &d, path, &facts, &text), &d);
    expect_words(&text, "0 taken, 1 there before");
    tcc_strbuf_free(&text);
    assert_int_equal(tcc_cache_take_in(c, &d, "/tmp/no/such", &facts, &text), TCC_ENOTFOUND);
    tcc_diag_clear(&d);
    tcc_cache_close(c);
    write_file("damaged, so that nothing opens it any more", 40);
    assert_ok(tcc_cache_remove(&d, &(tcc_cache_options){.folder = folder}), &d);
    tcc_cache_close(open_cache());
}

static void test_out_of_memory(void **state) {
    (void)state;
    make_sample();
    for (int64_t n = 0;; n++) {
        tcc_diag d = {0};
        tcc_cache *c;
        tcc__alloc_fail_at(n);
        const tcc_status status = try_open(&d, 0, &c);
        if (status == TCC_OK) {
            const char *found = get(c, "k1");
            if (*found) assert_int_equal(found[0], 'b');
            put(c, "new", "new");
        }
        tcc_cache_close(c);
        const bool all = tcc__alloc_fail_at(-1) <= n;
        tcc_diag_clear(&d);
        if (all) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, test_folder_remove)
        TEST(test_kept),
        TEST(test_no_part_may_differ),
        TEST(test_oldest_go_first),
        TEST(test_switched_off),
        TEST(test_refused),
        TEST(test_locked),
        TEST(test_damaged),
        TEST(test_heals),
        TEST(test_read_only),
        TEST(test_full_disk),
        TEST(test_many_writers),
        TEST(test_killed_writers),
        TEST(test_claims),
        TEST(test_tools),
        TEST(test_export_and_import),
        TEST(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
