#include "plugins/jobs/data/shards.hpp"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "core/base/printable.hpp"
#include "core/base/status.hpp"
#include "core/io/io.hpp"
#include "kinora/io.hpp"
#include "kinora/webdataset_files.hpp"
#include "plugins/jobs/data/in_order.hpp"

namespace kinora::data {
namespace {

constexpr std::string_view kMeta = ".nv-meta/", kTar = ".tar", kIndex = ".tar.idx";
constexpr uint64_t kMostSmall = uint64_t{1} << 28;  // .info.json of some millions of shards

core::Io& io() {
  core::Io* const served = core::served_io();
  if (!served) throw Error(KINORA_ERROR_UNSUPPORTED, "this program does not offer files of storages");
  return *served;
}

bool is_hidden(std::string_view name) {
  return name.starts_with('.') || name.find("/.") != std::string_view::npos;
}

// JSON needs UTF-8, and readers of split.yaml expand braces.
void check_name(const std::string& folder, const std::string& name) {
  const auto refuse = [&](const char* why) {
    throw Error(KINORA_ERROR_INVALID, folder + ": the shard '" + core::printable(name) +
                                          "' cannot be listed in .nv-meta, because its name " + why +
                                          "; rename it");
  };
  if (name.find_first_of("{}\\") != std::string::npos) refuse("has a brace or a backslash");
  for (const unsigned char c : name)
    if (c < 32 || c == 127) refuse("has a control character");
  try {
    (void)nlohmann::json(name).dump();
  } catch (const nlohmann::json::exception&) {
    refuse("is not UTF-8");
  }
}

// Asks a web server for sizes and times of files. A file that it does not have has none.
std::vector<std::optional<core::Listed>> ask_web(const std::vector<std::string>& uris) {
  constexpr size_t kAtOnce = 16;
  std::vector<std::optional<core::Listed>> out(uris.size());
  InOrder<core::Listed> requests(uris.size(), kAtOnce);
  requests.run(
      [&](size_t number, const InOrder<core::Listed>::Push& push) {
        auto found = io().list(uris[number]);
        if (!found && found.failure().code != KINORA_ERROR_NOT_FOUND) core::or_throw(std::move(found));
        if (found && !found->empty()) push(std::move(found->front()));
      },
      [&](size_t number, core::Listed file) { out[number] = std::move(file); });
  return out;
}

// Adds those of the shards that are there.
void add_of_web(const std::vector<std::string>& uris, DataFolder& to) {
  std::vector<std::string> files = uris;
  for (const auto& uri : uris) files.push_back(uri + ".idx");
  const auto found = ask_web(files);
  for (size_t i = 0; i < uris.size(); ++i) {
    if (!found[i]) continue;
    Shard shard{uris[i].substr(to.uri.size() + 1), uris[i], found[i]->size, found[i]->modified, {}};
    if (const auto& index = found[uris.size() + i]) shard.index_size = index->size;
    to.shards.push_back(std::move(shard));
  }
  if (to.shards.empty())
    throw Error(KINORA_ERROR_NOT_FOUND, uris.front() + ": no such file; check the address");
  std::sort(to.shards.begin(), to.shards.end(),
            [](const Shard& x, const Shard& y) { return x.name < y.name; });
}

DataFolder find_on_web(const std::string& path) {
  DataFolder out{.uri = path.substr(0, path.find_last_not_of('/') + 1)};
  if (path.ends_with(kTar)) {
    out = {.uri = path.substr(0, path.rfind('/')), .is_one_file = true};
    add_of_web({path}, out);
    return out;
  }
  const std::vector<std::string> meta{".info.json", "index.sqlite"};
  const auto text = read_small(out.meta_uri(meta[0]));
  if (!text) core::or_throw(io().list(out.uri + "/"));  // which says what to do
  std::vector<std::string> uris;
  for (const auto& file : kinora::detail::files_of_info(out.uri, text.value_or(""))) {
    check_name(out.uri, file.uri.substr(out.uri.size() + 1));
    uris.push_back(file.uri);
  }
  if (uris.empty()) throw Error(KINORA_ERROR_NOT_FOUND, out.meta_uri(meta[0]) + ": lists no shards");
  add_of_web(uris, out);
  const auto found = ask_web({out.meta_uri(meta[0]), out.meta_uri(meta[1])});
  for (size_t i = 0; i < meta.size(); ++i)
    if (found[i]) out.meta.emplace(meta[i], found[i]->size);
  return out;
}

// A .tar file with its .tar.idx, from the listing of its folder; nothing if the path is not one.
std::optional<DataFolder> one_shard(const std::string& path) {
  if (!path.ends_with(kTar)) return std::nullopt;
  const size_t slash = path.rfind('/') + 1;  // npos + 1 is 0
  const std::string folder = slash == 0 ? "." : path.substr(0, std::max<size_t>(slash - 1, 1));
  std::optional<Shard> shard;
  std::optional<uint64_t> index_size;
  for (const auto& entry : core::or_throw(io().list(folder))) {
    if (entry.folder) continue;
    if (entry.name == path.substr(slash)) shard = Shard{entry.name, path, entry.size, entry.modified, {}};
    if (entry.name == path.substr(slash) + ".idx") index_size = entry.size;
  }
  if (!shard) return std::nullopt;
  shard->index_size = index_size;
  return DataFolder{folder, true, {*shard}, {}};
}

}  // namespace

uint64_t DataFolder::bytes() const {
  uint64_t sum = 0;
  for (const auto& shard : shards) sum += shard.size;
  return sum;
}

DataFolder find_shards(const std::string& path) {
  if (core::is_web(path)) return find_on_web(path);
  std::error_code ignored;
  if (path.find("://") == path.npos && !std::filesystem::exists(path, ignored))
    throw Error(KINORA_ERROR_NOT_FOUND, "'" + path + "': no such file or folder");
  if (auto file = one_shard(path)) return *std::move(file);
  DataFolder out{.uri = path};
  while (out.uri.size() > 1 && out.uri.ends_with('/') && !out.uri.ends_with("://")) out.uri.pop_back();
  const auto files = core::or_throw(io().list_all(out.uri));
  if (files.size() == 1 && files[0].name.empty())
    throw Error(KINORA_ERROR_INVALID, path + ": not a .tar file; give a folder of shards, or one shard");
  std::map<std::string, uint64_t> indexes;
  for (const auto& file : files) {
    if (file.name.starts_with(kMeta)) out.meta.emplace(file.name.substr(kMeta.size()), file.size);
    if (is_hidden(file.name)) continue;
    if (file.name.ends_with(kIndex)) indexes.emplace(file.name.substr(0, file.name.size() - 4), file.size);
    if (!file.name.ends_with(kTar)) continue;
    check_name(out.uri, file.name);
    out.shards.push_back({file.name, out.uri + "/" + file.name, file.size, file.modified, {}});
  }
  if (out.shards.empty()) {
    const bool is_mds =
        std::any_of(files.begin(), files.end(), [](const auto& file) { return file.name.ends_with(".mds"); });
    throw Error(KINORA_ERROR_NOT_FOUND, out.uri + ": no .tar files; give a folder of shards" +
                                            (is_mds ? " of WebDataset (only tables of data read MDS)" : ""));
  }
  for (auto& shard : out.shards)
    if (const auto at = indexes.find(shard.name); at != indexes.end()) shard.index_size = at->second;
  return out;
}

std::optional<std::string> read_small(const std::string& uri) {
  auto text = io().read_all(uri, kMostSmall);
  if (text) return *std::move(text);
  if (text.failure().code == KINORA_ERROR_NOT_FOUND) return std::nullopt;
  throw Error(text.failure().code, text.failure().message);
}

void write_small(const std::string& uri, std::string_view text) {
  Writer out(uri);
  out.write(text);
  out.commit();
}

void remove_file(const std::string& uri) {
  const auto done = io().remove(uri);
  if (!done && done.failure().code != KINORA_ERROR_NOT_FOUND)
    throw Error(done.failure().code, done.failure().message);
}

}  // namespace kinora::data
