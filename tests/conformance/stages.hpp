// Folders and options that instances of stages need.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include "kinora/abi/stage.h"
#include "tests/support/plugins.hpp"

namespace kinora::test {

inline const std::filesystem::path kData = KINORA_TEST_DATA;

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("kinora-stages-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path file(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The options that a stage cannot be created without.
inline core::json required(const std::string& id, const Folder& folder) {
  if (id == "stage/embed.model") return {{"model", kData / "oracle/exported/tower.pt"}};
  if (id == "stage/filter.model")
    return {{"model", kData / "oracle/exported/tower.pt"}, {"name", "x"}, {"threshold", 0.0}};
  if (id == "stage/filter.facts") return {{"fact", "duration_s"}};
  if (id == "stage/text.wordpiece")
    return {{"vocab", folder.file("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")}};
  if (id == "stage/text.tokenizer" || id == "stage/text.decode")
    return {{"file", kData / "oracle/text_seed_t5.json"}};
  if (id == "stage/text.chat") return {{"file", kData / "oracle/text_seed_t5.json"}, {"template", "plain"}};
  for (const char* asking :
       {"caption.endpoint", "caption.enhance", "filter.endpoint", "filter.ocr", "embed.endpoint"})
    if (id == std::string("stage/") + asking)
      return {{"model", "m"}, {"base_url", "http://127.0.0.1:9"}, {"retries", 0}};
  return core::json::object();
}

}  // namespace kinora::test
