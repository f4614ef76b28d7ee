// Vectors of texts that an embed-text job has made before, so that an edit costs the texts that it changes.
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
  // What text.npy and text.json of the folder have (plugins/jobs/embed-text/embed_text.hpp), if they belong together and are of
  // this encoder, on whatever device; else nothing.
  KnownTexts(const std::filesystem::path& folder, const nlohmann::json& encoder);

  // Null: the text is not known.
  const std::vector<float>* find(const std::string& text) const;
  const std::vector<float>& add(const std::string& text, std::vector<float> vector);

 private:
  std::unordered_map<std::string, std::vector<float>> vectors_;  // by SHA-256 of the text
};

}  // namespace kinora::core
