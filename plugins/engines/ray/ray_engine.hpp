// engine/ray: runs a pipeline in processes on the nodes of a Ray cluster. The scheduler, the record and the order are
// those of engine/local, and so are the outcomes; a lost process or node costs no sample.
#pragma once
#include <string>
#include <vector>

#include "kinora/engine.hpp"
#include "plugins/engines/common/options.hpp"

namespace kinora::ray {

class RayEngine final : public Engine {
 public:
  struct Options : engines::CommonOptions {
    std::string address = "auto";
    std::string python;
    std::vector<std::string> where;
    bool insecure = false;
    std::string store = "shared";
    double cluster_wait = 600;
    int64_t node_losses = 8;
  };
  static void describe(Describe<Options>& d);
  // Throws Error for an address or a label that cannot be one, and for a Python that cannot be the bridge.
  explicit RayEngine(const Options& options);
  void run(const kinora_pipeline& pipeline, const Run& run) override;

 private:
  Options options_;
};

}  // namespace kinora::ray
