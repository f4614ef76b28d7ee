// Shards in the MDS format, version 2, of MosaicML Streaming: a folder with an index.json, which names the shards
// and their columns, and uncompressed .mds files. Numbers are little-endian.
//
//   shard.00000.mds: uint32 samples, uint32 offsets[samples + 1] in the file, the columns again (JSON), the samples
//   sample:          uint32 size of each column whose size is not fixed, in their order; the bytes of each column
//
// A column is a field of the sample. Text, JSON and pictures stay as they are; a number becomes its text, "42". The key
// is the text column "__key__" or "key", else the shard's name and the sample's number, "shard.00000/17". The facts
// are the members of a column "json" together with the columns of text, numbers and JSON.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/jobs/curation/webdataset.hpp"
#include "plugins/jobs/loading/mds_columns.hpp"
#include "plugins/jobs/loading/sample_shard.hpp"

namespace kinora::core {

// A shard as index.json describes it.
struct MdsFile {
  std::string uri;
  std::string name;  // below the folder, without ".mds"
  uint64_t bytes = 0, samples = 0;
  std::shared_ptr<const MdsColumns> columns;
};

// The shards of a folder, local or a URI, in the order of its index.json; nothing if it has no index.json of shards.
// Throws Error: KINORA_ERROR_UNSUPPORTED for compressed shards and for columns that are not read, KINORA_ERROR_DATA for
// a damaged index.
std::optional<std::vector<MdsFile>> mds_files(const std::string& path);

// Throws Error(KINORA_ERROR_DATA) if the file is not as index.json says.
std::shared_ptr<const SampleShard> open_mds(const MdsFile& file, const OpenBytes& open = open_bytes);

}  // namespace kinora::core
