#include "core/base/text_encoding.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <set>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"

namespace kinora::core {
namespace {

// Characters of the bytes 0x80 to 0x9F in Windows-1252; 0: none.
constexpr std::array<uint16_t, 32> kUpper{0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                          0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0,      0x017D, 0,
                                          0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                          0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178};

void append(std::string& to, uint32_t c) {
  const auto add = [&](uint32_t byte) { to += static_cast<char>(byte); };
  if (c < 0x80) return add(c);
  if (c < 0x800) return add(0xC0 | c >> 6), add(0x80 | (c & 0x3F));
  if (c < 0x10000) return add(0xE0 | c >> 12), add(0x80 | (c >> 6 & 0x3F)), add(0x80 | (c & 0x3F));
  add(0xF0 | c >> 18), add(0x80 | (c >> 12 & 0x3F)), add(0x80 | (c >> 6 & 0x3F)), add(0x80 | (c & 0x3F));
}

size_t line_at(std::string_view text, size_t at) {
  return 1 + static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n'));
}

// How many bytes a character has, and their order.
struct Wide {
  size_t size;
  bool is_big;
};

// The characters of UTF-16 or UTF-32, from byte `at` on.
Result<std::string> from_wide(std::string_view bytes, size_t at, Wide wide, std::string_view name) {
  std::string out;
  const auto wrong = [&](const char* what) {
    return fail(KINORA_ERROR_DATA, "{}:{}: {} in UTF-{} ({} bytes into the file); save it again as UTF-8",
                name, line_at(out, out.size()), what, 8 * wide.size, at);
  };
  const auto unit = [&](size_t from) {
    uint32_t c = 0;
    for (size_t i = 0; i < wide.size; ++i)
      c = c << 8 | static_cast<uint8_t>(bytes[from + (wide.is_big ? i : wide.size - 1 - i)]);
    return c;
  };
  for (; at < bytes.size(); at += wide.size) {
    if (bytes.size() - at < wide.size) return wrong("half a character");
    uint32_t c = unit(at);
    if (wide.size == 2 && c >= 0xD800 && c < 0xDC00 && at + 4 <= bytes.size() && unit(at + 2) >= 0xDC00 &&
        unit(at + 2) < 0xE000) {
      c = 0x10000 + ((c - 0xD800) << 10) + (unit(at + 2) - 0xDC00);
      at += 2;
    }
    if ((c >= 0xD800 && c < 0xE000) || c > 0x10FFFF) return wrong("half a surrogate pair");
    if (c == 0) return wrong("a NUL character");
    append(out, c);
  }
  return out;
}

// UTF-16 without a mark: most characters of a text in a European language have one zero byte, always at the same side.
std::optional<Wide> unmarked(std::string_view bytes) {
  constexpr size_t kLooked = 4096;
  const std::string_view start = bytes.substr(0, kLooked);
  if (start.size() < 4 || bytes.size() % 2 != 0) return std::nullopt;
  std::array<size_t, 2> zeros{};
  for (size_t i = 0; i < start.size(); ++i) zeros[i % 2] += start[i] == '\0';
  for (const size_t side : {0U, 1U})
    if (zeros[side] * 4 > start.size() && zeros[1 - side] * 8 < zeros[side]) return Wide{2, side == 0};
  return std::nullopt;
}

void say_once(std::string_view name, size_t line) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> said;
  {
    const std::scoped_lock lock(mutex);
    if (said.size() > 1000 || !said.emplace(name).second) return;
  }
  log_warn("{}:{}: not UTF-8, so it is read as Windows-1252; if it is in another encoding, save it as UTF-8",
           name, line);
}

Result<std::string> from_other(std::string bytes, std::string_view name, OtherBytes other) {
  const std::string valid = valid_utf8(bytes);
  if (valid == bytes || other == OtherBytes::keep) return bytes;
  const auto first =
      static_cast<size_t>(std::mismatch(bytes.begin(), bytes.end(), valid.begin()).first - bytes.begin());
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (byte >= 0x80 && byte < 0xA0 && kUpper[byte - 0x80] == 0)
      return fail(KINORA_ERROR_DATA,
                  "{}:{}: byte 0x{:02X} is neither UTF-8 nor Windows-1252; save the file as UTF-8", name,
                  line_at(bytes, i), byte);
  }
  say_once(name, line_at(bytes, first));
  return from_windows_1252(bytes);
}

}  // namespace

Result<std::string> utf8_text(std::string bytes, std::string_view name, OtherBytes other) {
  const std::string_view all = bytes;
  if (all.starts_with("\xEF\xBB\xBF")) {
    bytes.erase(0, 3);
  } else if (all.starts_with(std::string_view("\xFF\xFE\0\0", 4))) {
    return from_wide(all, 4, {4, false}, name);
  } else if (all.starts_with(std::string_view("\0\0\xFE\xFF", 4))) {
    return from_wide(all, 4, {4, true}, name);
  } else if (all.starts_with("\xFF\xFE")) {
    return from_wide(all, 2, {2, false}, name);
  } else if (all.starts_with("\xFE\xFF")) {
    return from_wide(all, 2, {2, true}, name);
  } else if (const auto wide = unmarked(all)) {
    return from_wide(all, 0, *wide, name);
  }
  if (const size_t nul = bytes.find('\0'); nul != bytes.npos)
    return fail(KINORA_ERROR_DATA, "{}:{}: a NUL byte, so it is not text; is it the right file, in UTF-8?",
                name, line_at(bytes, nul));
  return from_other(std::move(bytes), name, other);
}

std::string from_windows_1252(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    const bool is_special = byte >= 0x80 && byte < 0xA0 && kUpper[byte - 0x80] != 0;
    append(out, is_special ? kUpper[byte - 0x80] : byte);
  }
  return out;
}

}  // namespace kinora::core
