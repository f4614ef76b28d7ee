#include "planned_shard.hpp"

#include <algorithm>

#include "kinora/error.hpp"
#include "kinora/io.hpp"
#include "tar.hpp"

namespace kinora::shard {
namespace {

void check_stop(const std::atomic<bool>& stop) {
  if (stop) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
}

// The size of the file is the planned one, by which the shards were divided.
void copy_file(const Content& content, TarWriter& tar, std::vector<char>& piece,
               const std::atomic<bool>& stop) {
  const Reader file(content.uri);
  if (static_cast<uint64_t>(file.size()) != content.size)
    throw Error(KINORA_ERROR_DATA, content.uri + ": it has " + std::to_string(file.size()) +
                                       " bytes now, and had " + std::to_string(content.size) +
                                       " when the shards were planned; run again when nothing writes there");
  for (uint64_t at = 0; at < content.size;) {
    check_stop(stop);
    const uint64_t got = file.read(at, piece.data(), std::min<uint64_t>(piece.size(), content.size - at));
    if (got == 0)
      throw Error(KINORA_ERROR_IO, content.uri + ": cannot be read to its end; is the disk in order?");
    tar.write(piece.data(), got);
    at += got;
  }
}

}  // namespace

void write_file(const std::string& uri, std::string_view text) {
  Writer out(uri);
  out.write(text);
  out.commit();
}

uint64_t most_in_archive(const PlannedSample& sample) {
  uint64_t out = 0;
  for (const auto& content : sample.fields)
    out += most_in_archive(sample.key + "." + content.field, content.size);
  return out;
}

std::vector<energon::StoredSample> write_shard(const PlannedShard& shard, const std::atomic<bool>& stop) {
  TarWriter tar(shard.uri);
  energon::Grouping grouping;
  std::vector<energon::StoredSample> out;
  std::vector<char> piece(size_t{1} << 18);
  for (const auto& sample : shard.samples) {
    check_stop(stop);
    for (const auto& content : sample.fields) {
      const Member m = tar.begin(sample.key + "." + content.field, content.size);
      if (content.uri.empty())
        tar.write(content.bytes.data(), content.bytes.size());
      else
        copy_file(content, tar, piece, stop);
      if (auto ended = grouping.add(m.name, m.header, m.content, m.size)) out.push_back(*std::move(ended));
    }
  }
  const uint64_t end = tar.commit();
  if (auto ended = grouping.finish(end)) out.push_back(*std::move(ended));
  write_file(shard.uri + ".idx", energon::tar_index(out, end));
  return out;
}

}  // namespace kinora::shard
