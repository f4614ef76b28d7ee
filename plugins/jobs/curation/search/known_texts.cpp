#include "plugins/jobs/curation/search/known_texts.hpp"

#include "core/base/facts.hpp"
#include "core/io/byte_source.hpp"
#include "core/base/digest.hpp"
#include "core/base/status.hpp"
#include "kinora/npy.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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
