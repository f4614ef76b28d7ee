// Reuses vectors of texts that an embed-text job computed before, so that an edit costs only the texts that
// it changes.
#pragma once
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

// [owner-thread]
class KnownTexts {
 public:
  KnownTexts() = default;
  // Reads text.npy and text.json of the folder (plugins/jobs/embed-text/embed_text.hpp) if they belong together and are from
  // this encoder, on whatever device; else nothing.
  KnownTexts(const std::filesystem::path& folder, const nlohmann::json& encoder);

  // Null: the text is unknown.
  const std::vector<float>* find(const std::string& text) const;
  const std::vector<float>& add(const std::string& text, std::vector<float> vector);

 private:
  std::unordered_map<std::string, std::vector<float>> vectors_;  // by SHA-256 of the text
};

}  // namespace kinora::core
