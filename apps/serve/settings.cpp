#include "apps/serve/settings.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>

#include <fmt/ranges.h>

#include "core/base/quantity.hpp"
#include "core/base/suggest.hpp"
#include "core/config/document.hpp"
#include "kinora/error.hpp"

namespace kinora::serve {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Reader {
 public:
  Reader(const core::Document& document, std::string at, std::vector<std::string> names)
      : document_(document),
        at_(std::move(at)),
        table_(document.root().contains(json::json_pointer(at_)) ? document.root().at(json::json_pointer(at_))
                                                                 : json::object()) {
    if (!table_.is_object()) fail("", "expected a table", false);
    for (const auto& [name, _] : table_.items())
      if (std::find(names.begin(), names.end(), name) == names.end())
        fail(name,
             fmt::format("unknown key '{}'{}; there are {}", name, core::did_you_mean(name, names),
                         fmt::join(names, ", ")),
             true);
  }
  bool has(const std::string& name) const { return table_.contains(name); }
  std::string text(const std::string& name, const std::string& otherwise = "") const {
    if (!has(name)) return otherwise;
    if (!table_.at(name).is_string() || table_.at(name) == "") fail(name, name + ": expected a text", false);
    return table_.at(name);
  }
  int64_t whole(const std::string& name, int64_t otherwise, int64_t least, int64_t most) const {
    if (!has(name)) return otherwise;
    const json& value = table_.at(name);
    if (!value.is_number_integer() || value < least || value > most)
      fail(name, fmt::format("{}: expected a whole number from {} to {}", name, least, most), false);
    return value;
  }
  int64_t bytes(const std::string& name, int64_t otherwise) const {
    if (!has(name)) return otherwise;
    const json& value = table_.at(name);
    if (value.is_number_integer() && value > 0) return value;
    const auto size = value.is_string() ? core::parse_size(value.get<std::string>()) : core::parse_size("");
    if (!size || *size < 1) fail(name, name + ": expected bytes, such as 4096 or \"12 GiB\"", false);
    return *size;
  }
  bool yes(const std::string& name) const {
    if (!has(name)) return false;
    if (!table_.at(name).is_boolean()) fail(name, name + ": expected true or false", false);
    return table_.at(name);
  }
  std::optional<double> number(const std::string& name) const {
    if (!has(name)) return std::nullopt;
    if (!table_.at(name).is_number()) fail(name, name + ": expected a number", false);
    return table_.at(name).get<double>();
  }
  json list(const std::string& name) const {
    if (!has(name)) return json::array();
    if (!table_.at(name).is_array()) fail(name, name + ": expected a list", false);
    return table_.at(name);
  }
  json table(const std::string& name) const {
    if (!has(name)) return json::object();
    if (!table_.at(name).is_object()) fail(name, name + ": expected a table", false);
    return table_.at(name);
  }
  [[noreturn]] void fail(const std::string& name, const std::string& why, bool of_key) const {
    const std::string place = name.empty() ? at_ : at_ + "/" + name;
    throw Error(KINORA_ERROR_INVALID,
                core::format({of_key ? document_.key(place) : document_.value(place), why}));
  }

 private:
  const core::Document& document_;
  const std::string at_;
  const json table_;
};

// An item of the generate job's option `loras`.
std::string lora_of(const core::Document& document, const std::string& place, const fs::path& folder) {
  const Reader one(document, place, {"name", "file", "file_2", "scale"});
  json out{{"name", one.text("name")}};
  const std::string name = out.at("name");
  if (name.empty()) one.fail("", "name is missing: what requests call the LoRA", false);
  if (name.find('=') != std::string::npos) one.fail("name", "name: expected a name without '='", false);
  if (!one.has("file")) one.fail("", "file is missing: a LoRA's safetensors file, or PEFT's folder", false);
  for (const char* key : {"file", "file_2"}) {
    if (!one.has(key)) continue;
    const fs::path file = (folder / one.text(key)).lexically_normal();
    if (!fs::exists(file)) one.fail(key, file.string() + ": there is no such file", false);
    out[key] = file.string();
  }
  if (const auto scale = one.number("scale")) out["scale"] = *scale;
  return out.dump();
}

ModelSettings model_of(const core::Document& document, size_t number, const fs::path& folder) {
  const Reader one(document, fmt::format("/serve/models/{}", number),
                   {"name", "pipeline", "job", "ranks", "set", "batch", "loras"});
  ModelSettings out{.name = one.text("name"), .pipeline = one.text("pipeline"), .job = one.text("job")};
  out.ranks = one.whole("ranks", 1, 1, 512);
  out.batch = one.whole("batch", out.batch, 1, 64);
  const json set = one.table("set");
  for (const auto& [name, value] : set.items()) out.set.push_back(name + "=" + value.dump());
  json loras = json::array();
  for (size_t i = 0; i < one.list("loras").size(); ++i)
    loras.push_back(lora_of(document, fmt::format("/serve/models/{}/loras/{}", number, i), folder));
  if (!loras.empty()) out.set.push_back("loras=" + loras.dump());
  if (out.name.empty()) one.fail("", "name is missing: what clients call the model", false);
  if (out.name.starts_with('.') || out.name.find('/') != std::string::npos)
    one.fail("name", "name: expected a name without '/' that does not begin with '.'", false);
  if (out.pipeline.empty())
    one.fail("", "pipeline is missing: a published folder, or a run file with a generate job", false);
  out.pipeline = (folder / out.pipeline).lexically_normal();
  if (!fs::exists(out.pipeline))
    one.fail("pipeline", out.pipeline.string() + ": there is no such folder or file", false);
  return out;
}

}  // namespace

void require_token(const std::string& token, const std::string& whence) {
  if (token.size() < 16)
    throw Error(KINORA_ERROR_INVALID, whence + ": expected a token of at least 16 letters");
}

std::string read_token(const fs::path& file) {
  std::ifstream in(file);
  std::string out;
  std::getline(in, out);
  while (!out.empty() && (out.back() == '\r' || out.back() == ' ')) out.pop_back();
  require_token(out, file.string());
  return out;
}

Settings read_settings(const fs::path& file) {
  const auto refuse_pipeline = [&](bool is_one, const char* what) {
    if (is_one)
      throw Error(KINORA_ERROR_INVALID,
                  fmt::format("{0} is {1}; serve it with --pipeline: kinora serve --pipeline {0}",
                              file.string(), what));
  };
  refuse_pipeline(fs::is_directory(file), "a folder");
  const auto document = core::or_throw(core::Document::read(file));
  refuse_pipeline(document.root().contains("job") && !document.root().contains("serve"), "a run file");
  const fs::path folder = fs::absolute(file).parent_path();
  const Reader top(document, "", {"serve"});
  if (!top.has("serve")) top.fail("", "the table [serve] is missing", false);
  const Reader serve(document, "/serve",
                     {"host", "port", "token_file", "read_token_file", "folder", "max_queue", "memory", "keep", "drain",
                      "lease", "silence", "log_prompts", "upload", "seconds", "models"});
  Settings out;
  out.host = serve.text("host", out.host);
  out.port = static_cast<int>(serve.whole("port", out.port, 0, 65535));
  out.folder = (folder / serve.text("folder", out.folder.string())).lexically_normal();
  out.max_queue = serve.whole("max_queue", out.max_queue, 1, 1'000'000);
  out.keep = serve.whole("keep", out.keep, 1, int64_t{10} * 365 * 86400);
  out.upload = serve.whole("upload", out.upload, 1, int64_t{1} << 40);
  out.seconds = serve.whole("seconds", out.seconds, 1, 86400);
  out.memory = serve.bytes("memory", out.memory);
  out.drain = serve.whole("drain", out.drain, 0, 86400);
  out.lease = serve.whole("lease", out.lease, 0, 3600);
  out.log_prompts = serve.yes("log_prompts");
  out.silence = serve.whole("silence", out.silence, 2, 86400);
  if (const auto from = serve.text("token_file"); !from.empty()) out.token = read_token(folder / from);
  if (const auto from = serve.text("read_token_file"); !from.empty())
    out.read_token = read_token(folder / from);
  const json models = document.root().at("serve").value("models", json::array());
  if (!models.is_array() || models.empty())
    serve.fail(serve.has("models") ? "models" : "",
               "models: expected a list: [{ name = \"tiny\", pipeline = \"FOLDER\" }]", false);
  std::set<std::string> names;
  for (size_t i = 0; i < models.size(); ++i) {
    out.models.push_back(model_of(document, i, folder));
    if (!names.insert(out.models.back().name).second)
      serve.fail("models", "two models are called '" + out.models.back().name + "'", false);
  }
  return out;
}

}  // namespace kinora::serve
