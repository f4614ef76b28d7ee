#include "plugins/jobs/curation/content.hpp"

#include <vector>

#include "core/io/byte_source.hpp"
#include "core/base/cancel.hpp"
#include "core/base/digest.hpp"
#include "core/base/status.hpp"

namespace kinora::core {

std::string content_hash(const std::string& url) {
  const auto bytes = or_throw(open_bytes(url));
  std::vector<char> piece(size_t{4} << 20);
  Sha256 hash;
  for (uint64_t done = 0; done < bytes->size();) {
    if (cancelled()) throw Error(KINORA_CANCELLED, "cancelled");
    const uint64_t got = or_throw(bytes->read(done, piece.data(), piece.size()));
    if (got == 0)
      throw Error(KINORA_DATA, url + ": the file shrank while it was read; is it still being written?");
    hash.add(piece.data(), got);
    done += got;
  }
  return hash.hex();
}

}  // namespace kinora::core
