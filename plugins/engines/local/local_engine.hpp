// engine/local: runs a pipeline on the threads of this process, and on processes that it starts.
#pragma once
#include <string>
#include <vector>

#include "kinora/engine.hpp"

namespace kinora::local {

class LocalEngine final : public Engine {
 public:
  struct Options {
    int64_t queue = 64;
    int64_t retries = 2;
    double backoff = 0.2;
    double gpus = -1;
    int64_t nvdec = -1, nvenc = -1;
    int64_t worker_memory = 0;
    std::vector<std::string> isolate{"auto"};
    double item_timeout = 300, item_limit = 43200;
    int64_t item_memory = 0;
    int64_t item_retries = 1;
    bool profile = false;
  };
  static void describe(Describe<Options>& d);
  explicit LocalEngine(const Options& options) : options_(options) {}
  void run(const kinora_pipeline& pipeline, const Run& run) override;

 private:
  Options options_;
};

}  // namespace kinora::local
