#include "plugins/jobs/curation/search/caption_encoder.hpp"

#include <algorithm>
#include <limits>

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/status.hpp"
#include "core/io/byte_source.hpp"
#include "host/weights/weights.hpp"
#include "kinora/error.hpp"
#include "kinora/npy.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_encoder(const std::string& what) {
  throw Error(KINORA_ERROR_DATA, "text.json: its encoder " + what + "; run the embed-text job again, here");
}

Options options_in(const Registry& registry, const json& encoder, const char* kind, const std::string& id,
                   const char* member) {
  const auto spec = registry.find(kind, id);
  if (!spec) refuse_encoder("cannot be used: " + spec.failure().message);
  auto options = Options::make(**spec, object_in(encoder, member));
  if (!options) refuse_encoder(std::string("cannot be used: ") + member + ": " + options.failure().message);
  return *std::move(options);
}

// Escapes what a terminal would obey.
std::string quoted(const fs::path& path) {
  return json(path.string()).dump(-1, ' ', true, json::error_handler_t::replace);
}

bool is_safetensors(const fs::path& path) {
  std::error_code error;
  if (!path.is_absolute()) return false;
  if (fs::is_directory(path, error)) return archives_of(path).empty();
  const std::string name = path.filename().string();
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

}  // namespace

CaptionEncoder read_caption_encoder(const Registry& registry, const json& encoder) {
  CaptionEncoder out;
  out.words = text_in(encoder, "words");
  out.text = text_in(encoder, "text");
  out.device = text_in(encoder, "device");
  for (auto [id, kind] : {std::pair(&out.words, "stage"), {&out.text, "model"}})
    if (const auto found = registry.find(kind, *id)) *id = (*found)->id;
  out.words_options = options_in(registry, encoder, "stage", out.words, "words_options");
  out.text_options = options_in(registry, encoder, "model", out.text, "text_options");
  const double tokens = number_in(encoder, "max_tokens");
  if (!(tokens >= 1 && tokens <= std::numeric_limits<int32_t>::max()) || out.device.empty())
    refuse_encoder("lacks max_tokens or a device");
  out.max_tokens = static_cast<int64_t>(tokens);
  const auto weights = encoder.find("weights");
  if (weights == encoder.end() || !weights->is_array() || weights->empty())
    refuse_encoder("names no weights");
  for (const auto& path : *weights) {
    if (!path.is_string()) refuse_encoder("names weights that are not a path");
    out.weights.emplace_back(path.get<std::string>());
  }
  return out;
}

void require_safe(const Registry& registry, const CaptionEncoder& encoder) {
  const auto& made = or_throw(registry.find("stage", encoder.words))->outputs;
  for (const char* tensor : {"input_ids", "attention_mask"})
    if (std::none_of(made.begin(), made.end(), [&](const auto& one) { return one.name == tensor; }))
      refuse_encoder("takes its tokens from " + encoder.words + ", whose manifest names no output " + tensor);
  for (const std::string& file : encoder.words_options.paths()) {
    const fs::path path = file;  // an address, as of S3, would be asked with the user's keys
    if (std::error_code error; !path.is_absolute() || !fs::is_regular_file(path, error))
      refuse_encoder("gives " + encoder.words + " the file " + quoted(path) +
                     "; a search reads files of this machine only");
  }
  if (!encoder.text_options.paths().empty())
    refuse_encoder("gives " + encoder.text + " a file as an option; weights alone are taken from a folder");
  for (const auto& path : encoder.weights)
    if (!is_safetensors(path))
      refuse_encoder("has the weights " + quoted(path) + "; a search reads safetensors of this machine only");
}

namespace {

// Empty if there is no such file.
std::string contents(const fs::path& file) {
  const auto text = read_text(file.string(), UINT64_MAX);
  return text ? *text : "";
}

bool is_same(json a, json b) {
  for (json* encoder : {&a, &b})
    if (encoder->is_object()) encoder->erase("device");
  return a == b;
}

}  // namespace

KnownTexts::KnownTexts(const fs::path& folder, const json& encoder) {
  const json about = parse_facts(contents(folder / "text.json"));
  if (!about.is_object() || !is_same(about.value("encoder", json()), encoder)) return;
  const json texts = about.value("texts", json());
  const std::string bytes = contents(folder / "text.npy");
  // A run that was killed between writing the two files leaves an older text.json.
  if (!texts.is_array() || about.value("rows_sha256", json()) != sha256(bytes)) return;
  const auto rows = catching([&] { return read_npy(bytes, (folder / "text.npy").string()); });
  if (!rows || rows->shape.size() != 2 || rows->rows() != static_cast<int64_t>(texts.size())) return;
  for (int64_t i = 0; i < rows->rows(); ++i)
    if (const json& text = texts[static_cast<size_t>(i)]; text.is_string())
      vectors_[text.get<std::string>()].assign(rows->row(i).begin(), rows->row(i).end());
}

const std::vector<float>* KnownTexts::find(const std::string& text) const {
  const auto at = vectors_.find(sha256(text));
  return at == vectors_.end() ? nullptr : &at->second;
}

const std::vector<float>& KnownTexts::add(const std::string& text, std::vector<float> vector) {
  return vectors_[sha256(text)] = std::move(vector);
}

}  // namespace kinora::core
