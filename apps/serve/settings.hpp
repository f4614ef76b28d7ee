// The models and the limits of a server, from `kinora serve FILE.toml` or from flags.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::serve {

struct ModelSettings {
  std::string name;
  std::filesystem::path pipeline;  // a published folder, or a run file with a generate job
  std::string job;                 // of a run file; "": its only one
  int64_t ranks = 1;               // processes that make each video together
  std::vector<std::string> set;    // options of the generate job: "steps=30", its LoRAs among them
  int64_t batch = 1;               // videos alike that it makes at a time, at most
};

struct Settings {
  std::string host = "127.0.0.1", token;
  std::string read_token;  // of less right; "": there is none
  int port = 8000;
  std::filesystem::path folder = "runs/serve";  // of the videos and of their list
  int64_t max_queue = 64, keep = 24 * 3600, upload = 256 << 20, seconds = 120;
  int64_t memory = 0;    // bytes of all models and of the videos that they make; 0: no bound
  int64_t drain = 0;     // seconds that a video may take after the end was asked for
  int64_t lease = 60;    // seconds in which the viewer of a live session may come back
  int64_t silence = 30;  // seconds without a sign of life after which a model's process is ended
  bool log_prompts = false;
  std::vector<ModelSettings> models;
};

// Throws Error(KINORA_ERROR_INVALID) for a token of fewer than 16 letters. whence: where it comes from.
void require_token(const std::string& token, const std::string& whence);

// The first line of a file. Throws Error.
std::string read_token(const std::filesystem::path& file);

// Reads the table [serve]. Throws Error(KINORA_ERROR_INVALID) with FILE:LINE:COL and what is expected.
Settings read_settings(const std::filesystem::path& file);

}  // namespace kinora::serve
