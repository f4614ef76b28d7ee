// The LoRA adapters of a generate job, of which each video has one or none: its options `loras` and `lora`.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

struct LoraFile {
  std::string name;
  std::filesystem::path file, file_2;  // file_2: that of the second expert; empty: `file` has both
  double scale = 1;                    // of a video that says none
};

// The adapter of a video.
struct LoraUse {
  std::string name;  // "": none
  double scale = 1;
};

// JSON texts, as { name, file, file_2, scale }; files are relative to the folder. Throws Error(KINORA_ERROR_INVALID).
std::vector<LoraFile> lora_files(const std::vector<std::string>& texts, const std::filesystem::path& folder);

// NAME, NAME=SCALE or "". Throws Error(KINORA_ERROR_INVALID) for a name that is not among the files.
LoraUse lora_use(const std::string& text, const std::vector<LoraFile>& files);
std::string text_of(const LoraUse& use);

// Identifies the adapter's files, see weights_digest().
std::string digest_of(const LoraFile& lora, const std::filesystem::path& kept);

}  // namespace kinora::core
