/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/dbus.h"

#include <stdio.h>
#include <string.h>

enum { METHOD_CALL = 1, METHOD_RETURN, METHOD_ERROR };
enum { FIELD_PATH = 1, FIELD_INTERFACE, FIELD_MEMBER };
enum { FIELD_DESTINATION = 6, FIELD_SIGNATURE = 8 };

#define LITTLE_ENDIAN_MARK 'l'
#define BIG_ENDIAN_MARK    'B'
#define PROTOCOL_VERSION   1
#define HEADER_SIZE        16
#define FIELDS_SIZE_OFFSET 12
#define BODY_SIZE_OFFSET   4

/* ---- Writing ------------------------------------------------------------ */

struct writer {
  uint8_t* bytes;
  size_t used;
  bool is_full;
};

static void put(struct writer* to, const void* bytes, size_t size) {
  if (to->is_full || size > DBUS_CALL_MAX - to->used) {
    to->is_full = true;
    return;
  }
  memcpy(to->bytes + to->used, bytes, size);
  to->used += size;
}

static void put_byte(struct writer* to, uint8_t byte) {
  put(to, &byte, 1);
}

/* Every value lies at a multiple of its size. */
static void align(struct writer* to, size_t size) {
  while (to->used % size != 0 && !to->is_full)
    put_byte(to, 0);
}

static void store_number(uint8_t* at, uint32_t number) {
  for (int i = 0; i < 4; i++)
    at[i] = (uint8_t)(number >> (8 * i));
}

static void put_number(struct writer* to, uint32_t number) {
  uint8_t bytes[4];
  store_number(bytes, number);
  align(to, sizeof bytes);
  put(to, bytes, sizeof bytes);
}

static void put_string(struct writer* to, const char* text) {
  put_number(to, (uint32_t)strlen(text));
  put(to, text, strlen(text) + 1);
}

static void put_signature(struct writer* to, const char* types) {
  put_byte(to, (uint8_t)strlen(types));
  put(to, types, strlen(types) + 1);
}

/* An array begins with its size in bytes, known at its end, which does not
 * count the padding before its first element. */
struct array {
  size_t size_at, from;
};

static struct array begin_array(struct writer* to, size_t alignment) {
  put_number(to, 0);
  struct array array = {.size_at = to->used - 4};
  align(to, alignment);
  array.from = to->used;
  return array;
}

static void end_array(struct writer* to, struct array array) {
  if (!to->is_full)
    store_number(to->bytes + array.size_at, (uint32_t)(to->used - array.from));
}

static void put_field(struct writer* to, uint8_t field, const char* type,
                      const char* text) {
  align(to, 8);
  put_byte(to, field);
  put_signature(to, type);
  if (*type == 'g')
    put_signature(to, text);
  else
    put_string(to, text);
}

static void begin_property(struct writer* to, const char* name,
                           const char* type) {
  align(to, 8);
  put_string(to, name);
  put_signature(to, type);
}

static void put_properties(struct writer* to, const char* description) {
  struct array properties = begin_array(to, 8);
  begin_property(to, "Description", "s");
  put_string(to, description);

  /* 0 is who sends this: the manager looks at the socket, so that it is right
   * in a pid namespace as well. */
  begin_property(to, "PIDs", "au");
  struct array pids = begin_array(to, 4);
  put_number(to, 0);
  end_array(to, pids);

  /* Not all there are: each that one unit has its siblings get too. Delegation
   * also keeps the manager from stopping the scope over a box out of memory. */
  static const char* const controllers[] = {"cpu", "memory", "pids"};
  begin_property(to, "DelegateControllers", "as");
  struct array names = begin_array(to, 4);
  for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++)
    put_string(to, controllers[i]);
  end_array(to, names);

  begin_property(to, "CollectMode", "s");
  put_string(to, "inactive-or-failed");
  end_array(to, properties);
}

struct call {
  const char* path;
  const char* interface;
  const char* member;
  const char* types; /* of its arguments */
};

/* Returns where the arguments begin. */
static size_t begin_call(struct writer* to, const struct call* call) {
  put_byte(to, LITTLE_ENDIAN_MARK);
  put_byte(to, METHOD_CALL);
  put_byte(to, 0);
  put_byte(to, PROTOCOL_VERSION);
  put_number(to, 0); /* the body's size, below */
  put_number(to, 1); /* the message's number */
  struct array fields = begin_array(to, 8);
  put_field(to, FIELD_PATH, "o", call->path);
  put_field(to, FIELD_DESTINATION, "s", "org.freedesktop.systemd1");
  put_field(to, FIELD_INTERFACE, "s", call->interface);
  put_field(to, FIELD_MEMBER, "s", call->member);
  put_field(to, FIELD_SIGNATURE, "g", call->types);
  end_array(to, fields);
  align(to, 8);
  return to->used;
}

static size_t end_call(struct writer* to, size_t body) {
  if (to->is_full) return 0;
  store_number(to->bytes + BODY_SIZE_OFFSET, (uint32_t)(to->used - body));
  return to->used;
}

size_t dbus_write_scope_call(const char* unit, const char* description,
                             uint8_t bytes[static DBUS_CALL_MAX]) {
  static const struct call call = {
      .path = "/org/freedesktop/systemd1",
      .interface = "org.freedesktop.systemd1.Manager",
      .member = "StartTransientUnit",
      .types = "ssa(sv)a(sa(sv))"};
  struct writer writer = {.bytes = bytes};
  struct writer* to = &writer;
  size_t body = begin_call(to, &call);
  put_string(to, unit);
  put_string(to, "fail"); /* if there is a unit of that name */
  put_properties(to, description);
  end_array(to, begin_array(to, 8)); /* no other units along with it */
  return end_call(to, body);
}

static const char* interface_of(const char* unit) {
  const char* suffix = strrchr(unit, '.');
  if (suffix == NULL) return NULL;
  return strcmp(suffix, ".service") == 0 ? "org.freedesktop.systemd1.Service"
         : strcmp(suffix, ".scope") == 0 ? "org.freedesktop.systemd1.Scope"
         : strcmp(suffix, ".slice") == 0 ? "org.freedesktop.systemd1.Slice"
                                         : NULL;
}

static bool is_plain(char letter, bool is_first) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9' && !is_first);
}

size_t dbus_write_delegate_call(const char* unit,
                                uint8_t bytes[static DBUS_CALL_MAX]) {
  char path[DBUS_CALL_MAX];
  size_t used = (size_t)sprintf(path, "/org/freedesktop/systemd1/unit/");
  const char* interface = interface_of(unit);
  if (interface == NULL) return 0;
  /* What a path may not have is written as _2e. */
  for (const char* at = unit; *at != '\0'; at++) {
    if (used + 4 > sizeof path) return 0;
    if (is_plain(*at, at == unit))
      path[used++] = *at;
    else
      used += (size_t)sprintf(path + used, "_%02x", (unsigned char)*at);
  }
  path[used] = '\0';
  const struct call call = {.path = path,
                            .interface = "org.freedesktop.DBus.Properties",
                            .member = "Get",
                            .types = "ss"};
  struct writer writer = {.bytes = bytes};
  size_t body = begin_call(&writer, &call);
  put_string(&writer, interface);
  put_string(&writer, "Delegate");
  return end_call(&writer, body);
}

/* ---- Reading ------------------------------------------------------------ */

static uint32_t load_number(const uint8_t* at, bool is_big) {
  uint32_t number = 0;
  for (int i = 0; i < 4; i++)
    number |= (uint32_t)at[i] << (8 * (is_big ? 3 - i : i));
  return number;
}

/* What lies between the beginning and the body. */
static size_t head_size(uint32_t fields) {
  return ((size_t)HEADER_SIZE + fields + 7) / 8 * 8;
}

enum dbus_kind dbus_read(const uint8_t* bytes, size_t size,
                         size_t* ret_length) {
  if (size < HEADER_SIZE) return DBUS_UNFINISHED;
  bool is_big = bytes[0] == BIG_ENDIAN_MARK;
  if ((!is_big && bytes[0] != LITTLE_ENDIAN_MARK) ||
      bytes[3] != PROTOCOL_VERSION)
    return DBUS_BROKEN;
  uint32_t fields = load_number(bytes + FIELDS_SIZE_OFFSET, is_big);
  uint32_t body = load_number(bytes + BODY_SIZE_OFFSET, is_big);
  if (fields > DBUS_MESSAGE_MAX || body > DBUS_MESSAGE_MAX) return DBUS_BROKEN;
  size_t length = head_size(fields) + body;
  if (length > DBUS_MESSAGE_MAX) return DBUS_BROKEN;
  if (size < length) return DBUS_UNFINISHED;
  *ret_length = length;
  return bytes[1] == METHOD_RETURN  ? DBUS_RETURN
         : bytes[1] == METHOD_ERROR ? DBUS_ERROR
                                    : DBUS_OTHER;
}

bool dbus_says_true(const uint8_t* bytes, size_t length) {
  static const uint8_t variant[] = {1, 'b', 0, 0}; /* its type, padded */
  bool is_big = bytes[0] == BIG_ENDIAN_MARK;
  size_t head = head_size(load_number(bytes + FIELDS_SIZE_OFFSET, is_big));
  return length == head + sizeof variant + 4 &&
         memcmp(bytes + head, variant, sizeof variant) == 0 &&
         load_number(bytes + head + sizeof variant, is_big) == 1;
}
