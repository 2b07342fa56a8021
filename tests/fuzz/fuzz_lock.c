/* fuzz_lock.c - any bytes as a cadenza.lock: read or refused in words, each pin whole, and copies of them the same. */
#include <string.h>

#include "fuzz.h"
#include "plug/lock.h"
#include "support/memory_meter.h"

static void check_pin(const cdz_lock *lock, const cdz_pin *pin)
{
    FUZZ_CHECK(cdz_lock_find(lock, pin->id) == pin);
    FUZZ_CHECK(pin->version[0] && pin->kind && pin->n_files >= 2 && pin->n_files <= CDZ_LOCK_FILES);
    FUZZ_CHECK(cdz_pin_sha256(pin, "plugin.ini") != NULL);
    for (uint32_t i = 0; i < pin->n_files; i++) {
        FUZZ_CHECK(cdz_lock_file_ok(pin->files[i].name));
        FUZZ_CHECK(strlen(pin->files[i].sha256) == 64);
        FUZZ_CHECK(cdz_pin_sha256(pin, pin->files[i].name) == pin->files[i].sha256);
    }
}

/* Another lock takes each pin, twice, and gives it up again. */
static void copy_and_drop(const cdz_lock *lock)
{
    cdz_lock copy = {.path = "copy"};
    cdz_error err = {0};
    for (uint32_t i = 0; i < lock->n_pins; i++)
        for (int twice = 0; twice < 2; twice++)
            FUZZ_CHECK(cdz_lock_put(&copy, &lock->pins[i], &err) == CDZ_OK);
    FUZZ_CHECK(copy.n_pins == lock->n_pins);
    for (uint32_t i = 0; i < lock->n_pins; i++) {
        check_pin(&copy, cdz_lock_find(&copy, lock->pins[i].id));
        FUZZ_CHECK(cdz_lock_drop(&copy, lock->pins[i].id));
        FUZZ_CHECK(!cdz_lock_drop(&copy, lock->pins[i].id));
    }
    cdz_lock_free(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cdz_lock lock;
    cdz_error err = {0};
    meter_begin();
    if (cdz_lock_parse("fuzz.lock", (const char *)data, size, &lock, &err) == CDZ_OK) {
        for (uint32_t i = 0; i < lock.n_pins; i++) check_pin(&lock, &lock.pins[i]);
        copy_and_drop(&lock);
        cdz_lock_free(&lock);
    } else {
        FUZZ_CHECK(err.text[0]);
    }
    FUZZ_CHECK(meter_most() <= meter_allowed(size));
    return 0;
}
