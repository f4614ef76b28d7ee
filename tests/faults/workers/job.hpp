// Runs stage/faulty in processes, through the real host and engine/local.
#pragma once
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

#include "core/plugin/manifest.hpp"
#include "core/runtime/runtime.hpp"
#include "kinora/abi/engine.h"

namespace kinora::core {

Runtime& runtime();

struct Ran {
  std::map<std::string, std::string> ends;  // key: "kept", or how it ended
  std::map<std::string, int> times;         // that it was told
  std::set<std::string> pids;               // of the processes that let samples pass
  std::map<std::string, std::string> fields;
  std::set<std::string> environments;  // those processes started with
  std::set<std::string> rights;        // the line NoNewPrivs of their status
  std::string error;
  double seconds = 0;
};

// Inputs of these keys, each with a small, an empty and a large field and a tensor.
class Job {
 public:
  json engine = json::object(), stage = json::object();
  std::vector<std::string> keys{"a", "b", "bad", "c"};
  size_t media = 300000;  // bytes of field mp4, and a few more
  std::string url;
  std::atomic<bool> cancel{false};

  Ran run();

 private:
  int32_t next(kinora_sample** out);
  int32_t done(const kinora_outcome& o);
  size_t at_ = 0;
  Ran ran_;
};

// A file in a folder of its own, gone when the object dies.
class Scratch {
 public:
  explicit Scratch(const char* name);
  ~Scratch() { std::filesystem::remove(path_); }
  std::string name() const { return path_.string(); }
  std::string text() const;

 private:
  std::filesystem::path path_;
};

// The log while `run` is under way.
std::string logged(const std::function<void()>& run);

// How often words are in a text.
int times(const std::string& text, const std::string& words);

}  // namespace kinora::core
