// The samples behind the damage of a shard: what a reader that stops there leaves out. Needs libarchive.
#pragma once
#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "kinora/energon.hpp"

KINORA_SDK_BEGIN

namespace kinora {

namespace detail {

// Whether 512 bytes are a header by POSIX.1-1988: "ustar" and a right checksum.
inline bool is_tar_header(const uint8_t* block) {
  constexpr size_t kBlock = 512, kMagic = 257, kChecksum = 148, kDigits = 8;
  if (std::memcmp(block + kMagic, "ustar", 5) != 0) return false;
  uint64_t sum = 0, said = 0;
  for (size_t i = 0; i < kBlock; ++i) sum += i >= kChecksum && i < kChecksum + kDigits ? ' ' : block[i];
  for (size_t i = kChecksum; i < kChecksum + kDigits; ++i)
    if (block[i] >= '0' && block[i] <= '7') said = said * 8 + block[i] - '0';
  return said == sum;
}

// Offset of the first header at or after `from`, at any byte: where some are lost, those behind are not in blocks of
// 512. The size if there is none.
inline uint64_t next_tar_header(const RandomBytes& bytes, uint64_t from) {
  constexpr size_t kBlock = 512, kMagic = 257;
  constexpr std::string_view kUstar = "ustar";
  std::vector<uint8_t> window(1 << 20);
  while (from + kBlock <= bytes.size) {
    const uint64_t got = bytes.read(from, window.data(), window.size());
    if (got < kBlock) break;
    const std::string_view text(reinterpret_cast<const char*>(window.data()), got);
    for (size_t magic = text.find(kUstar, kMagic);
         magic != std::string_view::npos && magic - kMagic + kBlock <= got;
         magic = text.find(kUstar, magic + 1))
      if (is_tar_header(window.data() + magic - kMagic)) return from + magic - kMagic;
    from += got - kBlock + 1;
  }
  return bytes.size;
}

}  // namespace detail

// The samples at or after `from`, each once, without their fields. Damage in and between them is passed over, so those
// next to it may have lost fields. Throws Error of the storage.
inline std::vector<WebDatasetEntry> samples_behind(const RandomBytes& bytes, uint64_t from) {
  constexpr size_t kMostParts = 100'000;  // bound memory and time of a hostile archive
  constexpr int kMostDamages = 1000;
  std::vector<WebDatasetEntry> out;
  for (int damages = 0; damages < kMostDamages; ++damages) {
    from = detail::next_tar_header(bytes, from);
    if (from == bytes.size) break;
    energon::Grouping samples;
    const auto add = [&](std::optional<energon::StoredSample> one) {
      if (!one) return;
      const uint64_t at = from + one->offset;
      if (!out.empty() && out.back().key == one->key)  // the rest of a sample with damage in its middle
        out.back().size = at + one->size - out.back().offset;
      else
        out.push_back({std::move(one->key), bytes.name, at, one->size});
    };
    uint64_t end = 0;
    try {
      TarReader tar(bytes.part(from, bytes.size));
      while (const auto member = tar.next()) {
        add(samples.add(member->name, member->header, member->content(), member->size));
        end = tar.end();
        if (samples.open_parts() > kMostParts) break;
      }
    } catch (const Error& e) {
      if (e.code() != KINORA_ERROR_DATA && e.code() != KINORA_ERROR_UNSUPPORTED) throw;
    }
    add(samples.finish(end));
    from += std::max<uint64_t>(end, 1);
  }
  return out;
}

}  // namespace kinora

KINORA_SDK_END
