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
  std::map<std::string, std::string> ends;  // key: "kept", or the outcome
  std::map<std::string, int> times;         // number of reported outcomes
  std::set<std::string> pids;               // of the processes that emitted samples
  std::map<std::string, std::string> fields;
  std::set<std::string> environments;  // environments of those processes
  std::set<std::string> rights;        // the line NoNewPrivs of their status
  std::string error;
  double seconds = 0;
};

// Inputs with these keys, each with a small, an empty and a large field and a tensor.
class Job {
 public:
  json engine = json::object(), stage = json::object();
  std::vector<std::string> keys{"a", "b", "bad", "c"};
  size_t media = 300000;  // bytes of field mp4, plus a few
  std::string url;
  std::atomic<bool> cancel{false};

  Ran run();

 private:
  int32_t next(kinora_sample** out);
  int32_t done(const kinora_outcome& o);
  size_t at_ = 0;
  Ran ran_;
};

// A file in a separate folder, removed with the object.
class Scratch {
 public:
  explicit Scratch(const char* name);
  ~Scratch() { std::filesystem::remove(path_); }
  std::string name() const { return path_.string(); }
  std::string text() const;

 private:
  std::filesystem::path path_;
};

// The log written during `run`.
std::string logged(const std::function<void()>& run);

// Number of occurrences of `words` in a text.
int times(const std::string& text, const std::string& words);

}  // namespace kinora::core
