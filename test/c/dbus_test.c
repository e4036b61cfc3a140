/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/launcher/dbus.c libs: */

#include "launcher/dbus.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

/* The names are bytes of known places in the call, so it is read here as a
 * manager reads it: by the types that its signature names. */
struct reader {
  const uint8_t* bytes;
  size_t at, end;
  bool is_bad;
};

static void skip_padding(struct reader* from, size_t alignment) {
  while (from->at % alignment != 0 && from->at < from->end)
    if (from->bytes[from->at++] != 0) from->is_bad = true;
}

static uint32_t get_number(struct reader* from) {
  skip_padding(from, 4);
  if (from->end - from->at < 4) {
    from->is_bad = true;
    return 0;
  }
  const uint8_t* at = from->bytes + from->at;
  from->at += 4;
  return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
         (uint32_t)at[3] << 24;
}

static const char* get_text(struct reader* from, size_t length) {
  const char* text = (const char*)from->bytes + from->at;
  if (from->end - from->at <= length || text[length] != '\0' ||
      strlen(text) != length) {
    from->is_bad = true;
    return "";
  }
  from->at += length + 1;
  return text;
}

static const char* get_string(struct reader* from) {
  return get_text(from, get_number(from));
}

static const char* get_signature(struct reader* from) {
  return get_text(from, from->bytes[from->at++]);
}

static size_t get_array(struct reader* from, size_t alignment) {
  uint32_t size = get_number(from);
  skip_padding(from, alignment);
  if (size > from->end - from->at) from->is_bad = true;
  return from->at + size;
}

static void get_variant(struct reader* from, char* ret_text) {
  const char* type = get_signature(from);
  ret_text += sprintf(ret_text, "%s", type);
  size_t end = *type == 'a' ? get_array(from, 4) : from->at + 1;
  while (from->at < end && !from->is_bad)
    if (type[strlen(type) - 1] == 'u')
      ret_text += sprintf(ret_text, " %u", get_number(from));
    else
      ret_text += sprintf(ret_text, " %s", get_string(from));
  if (*type == 'a' && from->at != end) from->is_bad = true;
}

/* A call of its exact size, so that a byte too many is seen. */
static struct reader begin_reading(const uint8_t* bytes, size_t size) {
  uint8_t* copy = malloc(size);
  memcpy(copy, bytes, size);
  size_t length = 0;
  ok(size > 0 && dbus_read(copy, size, &length) == DBUS_OTHER && length == size,
     "%zu bytes are one message, whole", size);
  ok(memcmp(copy, "l\1\0\1", 4) == 0, "it is a call, of low end first");
  return (struct reader){.bytes = copy, .at = 12, .end = size};
}

static void get_fields(struct reader* from, char* ret_text) {
  *ret_text = '\0';
  size_t end = get_array(from, 8);
  while (from->at < end && !from->is_bad) {
    skip_padding(from, 8);
    uint8_t field = from->bytes[from->at++];
    const char* type = get_signature(from);
    ret_text += sprintf(ret_text, "%u=%s ", field,
                        *type == 'g' ? get_signature(from) : get_string(from));
  }
  if (from->at != end) from->is_bad = true;
  skip_padding(from, 8);
}

static void test_scope_call(void) {
  uint8_t bytes[DBUS_CALL_MAX];
  struct reader from = begin_reading(
      bytes, dbus_write_scope_call("glovebox-1-2.scope", "a test", bytes));
  char text[1024];
  get_fields(&from, text);
  ok(!from.is_bad &&
         strcmp(text,
                "1=/org/freedesktop/systemd1 6=org.freedesktop.systemd1 "
                "2=org.freedesktop.systemd1.Manager 3=StartTransientUnit "
                "8=ssa(sv)a(sa(sv)) ") == 0,
     "its header names the method: %s", text);
  ok(!from.is_bad && strcmp(get_string(&from), "glovebox-1-2.scope") == 0 &&
         strcmp(get_string(&from), "fail") == 0,
     "its body begins with unit and mode");
  size_t used = 0;
  size_t end = get_array(&from, 8);
  while (from.at < end && !from.is_bad) {
    skip_padding(&from, 8);
    const char* name = get_string(&from);
    char value[256];
    get_variant(&from, value);
    used += (size_t)sprintf(text + used, "%s: %s; ", name, value);
  }
  ok(!from.is_bad && from.at == end &&
         strcmp(text,
                "Description: s a test; PIDs: au 0; "
                "DelegateControllers: as cpu memory pids; "
                "CollectMode: s inactive-or-failed; ") == 0,
     "then come the properties: %s", text);
  end = get_array(&from, 8);
  ok(!from.is_bad && end == from.end && from.at == end,
     "and an empty list of other units");
  free((void*)from.bytes);
}

static void test_delegate_call(void) {
  uint8_t bytes[DBUS_CALL_MAX];
  struct reader from = begin_reading(
      bytes, dbus_write_delegate_call("1a-b\\x2d_9.service", bytes));
  char text[1024];
  get_fields(&from, text);
  ok(!from.is_bad &&
         strcmp(text,
                "1=/org/freedesktop/systemd1/unit/_31a_2db_5cx2d_5f9_2eservice "
                "6=org.freedesktop.systemd1 2=org.freedesktop.DBus.Properties "
                "3=Get 8=ss ") == 0,
     "the unit's name is what a path may have: %s", text);
  ok(!from.is_bad &&
         strcmp(get_string(&from), "org.freedesktop.systemd1.Service") == 0 &&
         strcmp(get_string(&from), "Delegate") == 0 && from.at == from.end,
     "its body is interface and property");
  free((void*)from.bytes);

  ok(dbus_write_delegate_call("x.scope", bytes) > 0 &&
         dbus_write_delegate_call("x.slice", bytes) > 0,
     "scopes and slices can be asked for");
  ok(dbus_write_delegate_call("x.socket", bytes) == 0 &&
         dbus_write_delegate_call("x", bytes) == 0 &&
         dbus_write_delegate_call("", bytes) == 0,
     "nothing else can");
}

static void test_too_long(void) {
  uint8_t* bytes = malloc(DBUS_CALL_MAX);
  char name[DBUS_CALL_MAX];
  bool fits = true;
  size_t failures = 0;
  for (size_t length = 0; length < sizeof name; length++) {
    memset(name, 'x', length);
    name[length] = '\0';
    size_t size = dbus_write_scope_call(name, name, bytes);
    if (size > DBUS_CALL_MAX || (!fits && size != 0)) failures++;
    if (size == 0) fits = false;
  }
  ok(failures == 0 && !fits, "names that do not fit are refused");
  fits = true;
  for (size_t length = 10; length < sizeof name; length++) {
    memset(name, '-', length);
    memcpy(name + length - 6, ".scope", 7);
    size_t size = dbus_write_delegate_call(name, bytes);
    if (size > DBUS_CALL_MAX || (!fits && size != 0)) failures++;
    if (size == 0) fits = false;
  }
  ok(failures == 0 && !fits, "so are those that grow");
  free(bytes);
}

static enum dbus_kind read_copy(const uint8_t* bytes, size_t size,
                                size_t* ret_length) {
  uint8_t* copy = malloc(size == 0 ? 1 : size);
  memcpy(copy, bytes, size);
  enum dbus_kind kind = dbus_read(copy, size, ret_length);
  free(copy);
  return kind;
}

static void test_answers(void) {
  /* A body of 3 bytes behind 5 bytes of header fields. */
  static const uint8_t little[27] = {'l', 2, 1, 1, 3, 0, 0, 0,
                                     9,   0, 0, 0, 5, 0, 0, 0};
  static const uint8_t big[27] = {'B', 3, 1, 1, 0, 0, 0, 3,
                                  0,   0, 0, 9, 0, 0, 0, 5};
  size_t length = 0;
  bool is_unfinished = true;
  for (size_t size = 0; size < sizeof little; size++)
    if (read_copy(little, size, &length) != DBUS_UNFINISHED || length != 0)
      is_unfinished = false;
  ok(is_unfinished, "a part of an answer is unfinished");
  ok(read_copy(little, sizeof little, &length) == DBUS_RETURN && length == 27,
     "an answer is recognized");
  length = 0;
  ok(read_copy(big, sizeof big, &length) == DBUS_ERROR && length == 27,
     "so is an error, and of high end first");

  uint8_t bad[27];
  const struct {
    const char* what;
    int at;
    uint8_t byte;
  } faults[] = {
      {"another byte order", 0, 'x'},  {"another version", 3, 2},
      {"fields of 2^24 bytes", 15, 1}, {"fields of 2^31 bytes", 15, 0x80},
      {"a body of 2^24 bytes", 7, 1},  {"a body of 2^32 - 2^24 bytes", 7, 0xff},
      {"a body of 2^16 bytes", 6, 1}};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    memcpy(bad, little, sizeof bad);
    bad[faults[i].at] = faults[i].byte;
    ok(read_copy(bad, sizeof bad, &length) == DBUS_BROKEN, "%s is broken",
       faults[i].what);
  }
}

static void test_truth(void) {
  static const uint8_t yes[24] = {'l', 2, 1, 1, 8, 0,   0, 0, 9, 0, 0, 0,
                                  0,   0, 0, 0, 1, 'b', 0, 0, 1, 0, 0, 0};
  uint8_t other[24];
  ok(dbus_says_true(yes, sizeof yes), "an answer that says true does");
  bool is_true = false;
  for (size_t length = 16; length < sizeof yes; length++)
    if (dbus_says_true(yes, length)) is_true = true;
  for (size_t at = 16; at < sizeof yes; at++) {
    memcpy(other, yes, sizeof other);
    other[at] ^= 1;
    if (dbus_says_true(other, sizeof other)) is_true = true;
  }
  memcpy(other, yes, sizeof other);
  other[12] = 8;
  if (dbus_says_true(other, sizeof other)) is_true = true;
  ok(!is_true, "any other does not");
}

int main(void) {
  test_scope_call();
  test_delegate_call();
  test_truth();
  test_too_long();
  test_answers();
  return done();
}
