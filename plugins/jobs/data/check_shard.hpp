// Reads all bytes of a shard and checks what can be checked without other shards.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kinora/energon.hpp"
#include "plugins/jobs/data/problem.hpp"
#include "plugins/jobs/data/shards.hpp"

namespace kinora::data {

// Decodes a medium. Returns why it cannot be decoded, "" if it can. Throws Error if no decoder can be used.
using DecodeMedium =
    std::function<std::string(const std::string& key, const std::string& field, std::vector<uint8_t> bytes)>;

// Some checked samples of one shard, in their order.
struct CheckedPiece {
  std::vector<energon::StoredSample> samples;
  std::vector<Problem> problems;
};

// Checks headers and their checksums, the end of the archive, names of members, double and empty fields,
// sizes, JSON, and the .tar.idx. decode: for the media that is_decoded() says; empty: they are only read.
// push returns false to stop.
void check_shard(const Shard& shard, const DecodeMedium& decode,
                 const std::function<bool(CheckedPiece)>& push);

}  // namespace kinora::data
