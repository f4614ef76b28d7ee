#include "plugins/jobs/latents/hdf5/blocks.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace kinora::core::hdf5 {
namespace {

uint64_t little(Bytes bytes) {
  uint64_t n = 0;
  for (size_t i = bytes.size(); i-- > 0;) n = n << 8 | bytes[i];
  return n;
}

uint64_t folded(uint64_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

}  // namespace

void damaged(const std::string& what) { throw Error(KINORA_ERROR_DATA, what + " is damaged"); }
void unsupported(const std::string& what) { throw Error(KINORA_ERROR_DATA, what); }

Bytes Cursor::take(uint64_t size) {
  if (size > left()) damaged(std::string(what_));
  const auto out = bytes_.subspan(at_, size);
  at_ += size;
  return out;
}

uint64_t Cursor::number(uint64_t width) {
  if (width == 0 || width > 8) damaged(std::string(what_));
  return little(take(width));
}

std::string Cursor::text(uint64_t size) {
  const auto bytes = take(size);
  return {bytes.begin(), bytes.end()};
}

void Cursor::expect(std::string_view signature) {
  if (text(signature.size()) != signature) damaged(std::string(what_));
}

void Walk::spend(uint64_t size, std::string_view what) {
  if (size > left_) damaged(std::string(what));
  left_ -= size;
}

void Walk::read(uint64_t address, uint64_t size, std::string_view what, std::vector<uint8_t>& to) {
  if (address > file_.size() || size > file_.size() - address)
    damaged(fmt::format("{} ({} bytes at byte {})", what, size, address));
  spend(size, what);
  to.resize(size);  // no more than the file has
  if (or_throw(file_.read(address, to.data(), size)) != size)
    throw Error(KINORA_ERROR_DATA, "was cut off while it was read");
}

std::vector<uint8_t> Walk::block(uint64_t address, uint64_t size, std::string_view what) {
  std::vector<uint8_t> out;
  read(address, size, what, out);
  return out;
}

std::vector<uint8_t> Walk::beginning(uint64_t address, uint64_t size, std::string_view what) {
  return block(address, std::min(size, file_.size() - std::min(address, file_.size())), what);
}

void Walk::check_metadata(Bytes block, std::string_view what) const {
  if (block.size() < kChecksum) damaged(std::string(what));
  const auto body = block.first(block.size() - kChecksum);
  if (verifies() && little(block.last(kChecksum)) != lookup3(body)) damaged(std::string(what));
}

uint32_t lookup3(Bytes bytes) {
  std::array<uint32_t, 3> s;
  s.fill(0xdeadbeef + static_cast<uint32_t>(bytes.size()));
  if (bytes.empty()) return s[2];
  const auto add = [&](Bytes piece) {
    for (size_t i = 0; i < piece.size(); ++i) s[i / 4] += uint32_t{piece[i]} << 8 * (i % 4);
  };
  for (; bytes.size() > 12; bytes = bytes.subspan(12)) {
    add(bytes.first(12));
    constexpr std::array kTurns{4, 6, 8, 16, 19, 4};
    for (size_t i = 0; i < kTurns.size(); ++i) {
      const size_t a = i % 3, b = (i + 1) % 3, c = (i + 2) % 3;
      s[a] -= s[c];
      s[a] ^= std::rotl(s[c], kTurns[i]);
      s[c] += s[b];
    }
  }
  add(bytes);
  constexpr std::array kTurns{14, 11, 25, 16, 4, 14, 24};
  for (size_t i = 0; i < kTurns.size(); ++i) {
    const size_t to = (i + 2) % 3, from = (i + 1) % 3;
    s[to] ^= s[from];
    s[to] -= std::rotl(s[from], kTurns[i]);
  }
  return s[2];
}

uint32_t fletcher32(Bytes bytes) {
  constexpr size_t kPiece = size_t{1} << 20;  // 64 bits hold the sums of that many
  uint64_t first = 0, second = 0;
  for (; bytes.size() > 1; bytes = bytes.subspan(std::min(kPiece, bytes.size() & ~size_t{1}))) {
    const auto piece = bytes.first(std::min(kPiece, bytes.size() & ~size_t{1}));
    for (size_t i = 0; i < piece.size(); i += 2) {
      first += uint64_t{piece[i]} << 8 | piece[i + 1];
      second += first;
    }
    first = folded(first);
    second = folded(second);
  }
  if (!bytes.empty()) {
    first = folded(first + (uint64_t{bytes[0]} << 8));
    second = folded(second + first);
  }
  return static_cast<uint32_t>(second << 16 | first);
}

}  // namespace kinora::core::hdf5
