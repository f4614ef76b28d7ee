#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "core/io/byte_source.hpp"
#include "kinora/sample.hpp"
#include "plugins/jobs/curation/webdataset.hpp"
#include "plugins/jobs/data/stored_text.hpp"
#include "plugins/jobs/loading/mds.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;
using Bytes = std::vector<uint8_t>;

uint32_t uint32_at(const uint8_t* from) {
  uint32_t out = 0;
  std::memcpy(&out, from, sizeof out);
  return out;
}

class MdsShard final : public SampleShard {
 public:
  MdsShard(const MdsFile& file, const OpenBytes& open) : file_(file), source_(or_throw(open(file.uri))) {
    if (source_->size() != file_.bytes)
      damaged(fmt::format("has {} bytes where index.json says {}", source_->size(), file_.bytes));
    const uint64_t end = 4 * (file_.samples + 2);  // of the offsets
    if (end > file_.bytes)
      damaged(fmt::format("is too short for the {} samples of index.json", file_.samples));
    if (const uint32_t samples = uint32_at(read(0, 4).data()); samples != file_.samples)
      damaged(fmt::format("has {} samples where index.json says {}", samples, file_.samples));
    const Bytes bytes = read(0, end, /*keep=*/true);
    for (uint64_t at = 4; at < end; at += 4) offsets_.push_back(uint32_at(bytes.data() + at));
    if (!std::is_sorted(offsets_.begin(), offsets_.end()) || offsets_.front() < end ||
        offsets_.back() > file_.bytes)
      damaged("has offsets of samples that do not rise or lead out of it");
  }

  uint64_t size() const override { return file_.samples; }

  uint64_t offset(uint64_t i) const override { return offsets_.at(i); }
  uint64_t bytes(uint64_t i) const override { return offsets_.at(i + 1) - offsets_[i]; }

  WebDatasetSample at(uint64_t i) const override {
    const uint64_t begin = offsets_.at(i);
    const Bytes whole = read(begin, bytes(i), /*keep=*/true);
    WebDatasetSample out;
    out.where = {default_key(i), source_->name(), begin, whole.size()};
    for (const auto& cell : cells(i, whole)) {
      const uint8_t* from = whole.data() + (cell.offset - begin);
      Bytes bytes(from, from + cell.size);
      if (cell.is_key)
        out.where.key = checked_key({bytes.begin(), bytes.end()}, i);
      else
        out.fields.push_back({cell.column.name, mds_field(cell.column, std::move(bytes))});
    }
    return with_utf8_json(std::move(out));
  }

  std::string key(uint64_t i) const override {
    for (const auto& cell : cells(i))
      if (cell.is_key) {
        const Bytes bytes = read(cell.offset, cell.size);
        return {bytes.begin(), bytes.end()};
      }
    return default_key(i);
  }

  json facts(uint64_t i) const override {
    json out = json::object();
    for (const auto& cell : cells(i)) {
      const bool is_json = cell.column.name == "json";
      if (cell.is_key || !(is_json || has_mds_facts(cell.column))) continue;
      const MdsColumn column{cell.column.name, cell.column.encoding, 0};
      const Bytes bytes = read(cell.offset, cell.size);
      if (!is_json) {
        out.emplace(column.name, mds_fact(column, bytes));
        continue;
      }
      const json value = parse_facts(as_utf8({bytes.begin(), bytes.end()}, "the json of " + default_key(i)));
      if (value.is_discarded())
        damaged(
            fmt::format("has a damaged sample {}: its json at byte {} is not JSON, or nested more than 64 "
                        "levels deep",
                        i, cell.offset));
      if (value.is_object()) out.update(value);
    }
    return out;
  }

 private:
  struct Cell {
    const MdsColumn& column;
    bool is_key;
    uint64_t offset, size;  // in the file
  };

  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(KINORA_ERROR_DATA, file_.uri + " " + what + "; copy it again, or write the set again");
  }
  // Throws Error(KINORA_ERROR_DATA) for a text that no sample can have as its key.
  std::string checked_key(std::string key, uint64_t i) const {
    try {
      return std::string(Sample(key).key());
    } catch (const Error& e) {
      throw Error(KINORA_ERROR_DATA, fmt::format("{}: sample {}: {}", source_->name(), i, e.what()));
    }
  }
  std::string default_key(uint64_t i) const { return fmt::format("{}/{}", file_.name, i); }

  Bytes read(uint64_t offset, uint64_t size, bool keep = false) const {
    return or_throw(read_exactly(*source_, offset, size, keep));
  }

  std::vector<Cell> cells(uint64_t i) const {
    const uint64_t size = offsets_.at(i + 1) - offsets_[i];
    return cells(i, read(offsets_[i], std::min(size, file_.columns->head())));
  }
  // The columns of a sample. start: its first bytes, the sizes of the columns among them.
  std::vector<Cell> cells(uint64_t i, const Bytes& start) const {
    const MdsColumns& columns = *file_.columns;
    if (start.size() < columns.head())
      damaged(fmt::format("has a damaged sample {}: it ends in its sizes", i));
    uint64_t at = offsets_.at(i) + columns.head();
    const uint8_t* next = start.data();
    std::vector<Cell> out;
    for (size_t c = 0; c < columns.all.size(); ++c) {
      const bool is_fixed = columns.all[c].fixed > 0;
      const uint64_t size = is_fixed ? columns.all[c].fixed : uint32_at(next);
      next += is_fixed ? 0 : 4;
      out.push_back({columns.all[c], c == columns.key, at, size});
      at += size;
    }
    if (at != offsets_.at(i + 1))
      damaged(fmt::format("has a damaged sample {}: the sizes of its columns do not add up", i));
    return out;
  }

  MdsFile file_;
  std::shared_ptr<const ByteSource> source_;
  std::vector<uint32_t> offsets_;  // of the samples, and the end of the last
};

}  // namespace

std::shared_ptr<const SampleShard> open_mds(const MdsFile& file, const OpenBytes& open) {
  return std::make_shared<MdsShard>(file, open);
}

}  // namespace kinora::core
