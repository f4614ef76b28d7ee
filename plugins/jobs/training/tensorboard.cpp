#include "plugins/jobs/training/tensorboard.hpp"

#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "core/base/status.hpp"
#include "core/io/fence.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Protocol buffers' wire format: a key is the field's number * 8 + the kind of the value that follows.
enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(uint64_t x) {
  std::string out;
  for (; x >= 0x80; x >>= 7) out += static_cast<char>(x | 0x80);
  return out + static_cast<char>(x);
}
std::string key(uint32_t field, Wire wire) { return varint(field << 3 | wire); }
std::string little(uint64_t x, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(x >> 8 * i);
  return out;
}
std::string of_int(uint32_t field, uint64_t x) { return key(field, kVarint) + varint(x); }
std::string of_double(uint32_t field, double x) {
  return key(field, kFixed64) + little(std::bit_cast<uint64_t>(x), 8);
}
std::string of_float(uint32_t field, float x) {
  return key(field, kFixed32) + little(std::bit_cast<uint32_t>(x), 4);
}
std::string of_bytes(uint32_t field, std::string_view x) {
  return (key(field, kBytes) + varint(x.size())).append(x);
}

uint32_t masked(
    std::string_view bytes) {  // so that checksums of data that contains checksums differ from them
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}
std::string record(std::string_view data) {
  const std::string length = little(data.size(), 8);
  return (length + little(masked(length), 4)).append(data) + little(masked(data), 4);
}

uint64_t number_at(std::string_view bytes, size_t at, int size) {
  uint64_t out = 0;
  for (int i = 0; i < size; ++i)
    out |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[at + static_cast<size_t>(i)])) << 8 * i;
  return out;
}

// The step of an Event that this file wrote: it follows the time, which has 9 bytes.
int64_t step_of(std::string_view event) {
  uint64_t out = 0;
  size_t at = 9;
  if (at >= event.size() || event[at] != of_int(2, 0)[0]) return 0;
  for (int shift = 0; ++at < event.size() && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(event[at]);
    out |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return static_cast<int64_t>(out);
}

// The length of the complete records up to `step`: steps are increasing.
uint64_t valid_up_to(const fs::path& file, int64_t step) {
  std::ifstream in(file, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  size_t at = 0;
  while (all.size() - at >= 16) {
    const uint64_t size = number_at(all, at, 8);
    if (size > all.size() - at - 16) break;
    const std::string_view data(all.data() + at + 12, size);
    if (number_at(all, at + 12 + size, 4) != masked(data) || step_of(data) > step) break;
    at += 16 + size;
  }
  return at;
}

std::optional<fs::path> existing(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("events.out.tfevents.") && entry.is_regular_file())
      return entry.path();
  return std::nullopt;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> out{};
    for (uint32_t i = 0; i < 256; ++i) {
      out[i] = i;
      for (int bit = 0; bit < 8; ++bit) out[i] = out[i] >> 1 ^ (out[i] & 1 ? 0x82f63b78u : 0);
    }
    return out;
  }();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

TensorBoard::TensorBoard(const fs::path& folder, int64_t step) {
  fs::create_directories(folder);
  const auto old = existing(folder);
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  file_ = old.value_or(folder / fmt::format("events.out.tfevents.{:.0f}.{}", now(), host.data()));
  const uint64_t kept = old ? valid_up_to(*old, step) : 0;
  if (old) fs::resize_file(file_, kept);
  out_.open(file_, std::ios::binary | std::ios::app);
  if (!out_)
    throw Error(KINORA_ERROR_IO, file_.string() + ": cannot be written; check the folder's permissions");
  if (kept == 0) event(0, of_bytes(3, "brain.Event:2"));  // file_version
  flush();
}

void TensorBoard::event(int64_t step, const std::string& fields) {
  if (!std::exchange(may_write_, true)) or_throw(may_publish(file_));
  out_ << record(of_double(1, now()) + of_int(2, static_cast<uint64_t>(step)) + fields);
}

void TensorBoard::scalar(int64_t step, std::string_view tag, double value) {
  event(step, of_bytes(5, of_bytes(1, of_bytes(1, tag) + of_float(2, static_cast<float>(value)))));
}

void TensorBoard::image(int64_t step, std::string_view tag, std::string_view png) {
  if (png.size() < 24) throw Error(KINORA_ERROR_DATA, "picture '" + std::string(tag) + "' is not a PNG");
  const auto size_at = [&](size_t at) {  // big-endian, in PNG's header
    return static_cast<uint64_t>(__builtin_bswap32(static_cast<uint32_t>(number_at(png, at, 4))));
  };
  const std::string image =
      of_int(1, size_at(20)) + of_int(2, size_at(16)) + of_int(3, 3) + of_bytes(4, png);  // 3: RGB
  event(step, of_bytes(5, of_bytes(1, of_bytes(1, tag) + of_bytes(4, image))));
}

void TensorBoard::flush() {
  out_.flush();
  may_write_ = false;
  if (!out_) throw Error(KINORA_ERROR_NO_MEMORY, file_.string() + ": cannot be written; is the disk full?");
}

}  // namespace kinora::core
