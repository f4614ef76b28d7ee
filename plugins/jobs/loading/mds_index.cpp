// Reads index.json of a folder of MDS shards; everything in it is checked.
#include <filesystem>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "core/io/byte_source.hpp"
#include "core/io/io.hpp"
#include "kinora/webdataset_files.hpp"
#include "plugins/jobs/loading/mds.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

class Index {
 public:
  explicit Index(std::string folder) : folder_(std::move(folder)), name_(folder_ + "/index.json") {}

  const std::string& name() const { return name_; }

  std::optional<std::vector<MdsFile>> files(std::string_view text) {
    const json index = parse_facts(text);
    if (index.is_discarded()) damaged("it is not JSON");
    if (!index.is_object() || !index.contains("shards") || !index["shards"].is_array()) return std::nullopt;
    std::vector<MdsFile> out;
    for (const auto& shard : index["shards"]) {
      which_ = fmt::format("shard {}", out.size());
      out.push_back(file(shard));
    }
    return out;
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(KINORA_ERROR_DATA, name_ + ": " + what + "; copy the folder again, or write it again");
  }
  [[noreturn]] void unsupported(const std::string& what) const {
    throw Error(KINORA_ERROR_UNSUPPORTED, name_ + ": " + what);
  }

  MdsFile file(const json& shard) {
    if (text_in(shard, "format") != "mds" || number_in(shard, "version") != 2)
      unsupported(which_ +
                  " is not of the format mds, version 2; write the set with MDSWriter of mosaicml-streaming");
    if (const std::string by = text_in(shard, "compression"); !by.empty())
      unsupported(
          fmt::format("{} is compressed ({}), so its samples cannot be read at random; write the set with "
                      "MDSWriter(compression=None)",
                      which_, by));
    const json& raw = object_in(shard, "raw_data");
    MdsFile out{{}, text_in(raw, "basename"), count(raw, "bytes"), count(shard, "samples"), columns(shard)};
    if (!kinora::detail::stays_inside(out.name))
      damaged(which_ + " has no basename of a file below the folder");
    out.uri = folder_ + "/" + out.name;
    if (out.name.ends_with(".mds")) out.name.resize(out.name.size() - 4);
    return out;
  }

  // The offsets of a shard have 32 bits.
  uint64_t count(const json& object, const char* key) const {
    constexpr uint64_t kMost = UINT32_MAX;
    const auto at = object.find(key);
    if (at == object.end() || !at->is_number_unsigned() || *at > kMost)
      damaged(fmt::format("{} has no number '{}'", which_, key));
    return at->get<uint64_t>();
  }

  // A shard nearly always has the columns of the one before.
  std::shared_ptr<const MdsColumns> columns(const json& shard) {
    json given = json::array();
    for (const char* list : {"column_names", "column_encodings", "column_sizes"}) {
      if (!shard.contains(list) || !shard[list].is_array() || shard[list].empty())
        damaged(fmt::format("{} has no list '{}'", which_, list));
      given.push_back(shard[list]);
      if (given.back().size() != given[0].size())
        damaged(which_ + " has lists of columns of different lengths");
    }
    if (columns_ && given == given_) return columns_;
    auto out = std::make_shared<MdsColumns>();
    for (size_t i = 0; i < given[0].size(); ++i) add_column(given[0][i], given[1][i], given[2][i], *out);
    out->key = out->all.size();
    for (const char* name : {"key", "__key__"})  // the latter is preferred
      for (size_t i = 0; i < out->all.size(); ++i)
        if (out->all[i].name == name && out->all[i].encoding == "str") out->key = i;
    given_ = std::move(given);
    return columns_ = std::move(out);
  }

  void add_column(const json& name, const json& encoding, const json& size, MdsColumns& to) const {
    if (!name.is_string() || !encoding.is_string() || !(size.is_null() || size.is_number_unsigned()))
      damaged(which_ + " has a column without a name, an encoding or a size");
    const MdsColumn column{name, encoding, size.is_null() ? 0 : size.get<uint64_t>()};
    uint64_t fixed = 0;
    if (!is_mds_encoding(column.encoding, fixed))
      unsupported(fmt::format(
          "the column '{}' of {} has the encoding {}, which is not read; write the set without it, "
          "or as bytes, str, json, jpeg, png or a number such as int or float32",
          column.name, which_, column.encoding));
    if (fixed > 0 ? column.fixed != fixed : column.fixed > UINT32_MAX)
      damaged(fmt::format("the column '{}' of {} has the size {}", column.name, which_, column.fixed));
    for (const auto& other : to.all)
      if (other.name == column.name) damaged(fmt::format("{} has two columns '{}'", which_, column.name));
    to.all.push_back(column);
  }

  std::string folder_, name_, which_;
  json given_;  // columns_ in index.json
  std::shared_ptr<const MdsColumns> columns_;
};

}  // namespace

std::optional<std::vector<MdsFile>> mds_files(const std::string& path) {
  constexpr uint64_t kMost = uint64_t{1} << 28;  // some hundred thousand shards
  const bool is_remote = kinora::detail::has_scheme(path);
  if (is_remote && (path.ends_with(".tar") || path.find('{') != path.npos)) return std::nullopt;
  Index index(path.substr(0, path.find_last_not_of('/') + 1));
  std::error_code absent;
  if (!is_remote && !std::filesystem::is_regular_file(index.name(), absent)) return std::nullopt;
  const auto text = read_text(index.name(), kMost);
  // Web servers that list nothing may deny access to a file that is not there. If it is there, the next file says so.
  const bool is_denied = is_web(path) && !text && text.failure().code == KINORA_ERROR_INVALID;
  if (!text && (is_denied || text.failure().code == KINORA_ERROR_NOT_FOUND)) return std::nullopt;
  return index.files(or_throw(text));
}

}  // namespace kinora::core
