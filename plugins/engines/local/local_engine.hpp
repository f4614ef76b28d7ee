// engine/local: runs a pipeline on the threads of this process, and on processes that it starts.
#pragma once
#include <string>
#include <vector>

#include "kinora/engine.hpp"
#include "plugins/engines/common/options.hpp"

namespace kinora::local {

class LocalEngine final : public Engine {
 public:
  struct Options : engines::CommonOptions {
    double gpus = -1;
    int64_t nvdec = -1, nvenc = -1;
    int64_t worker_memory = 0;
    std::vector<std::string> isolate{"auto"};
    int64_t item_memory = 0;
  };
  static void describe(Describe<Options>& d);
  explicit LocalEngine(const Options& options) : options_(options) {}
  void run(const kinora_pipeline& pipeline, const Run& run) override;

 private:
  Options options_;
};

}  // namespace kinora::local
