// Any bytes as the published configuration of models: a configuration that can be described without memory,
// or an error.
#include <cstdlib>

#include "core/plugin/host.hpp"
#include "core/torch/network/network.hpp"
#include "core/torch/tensors/tensors_api.hpp"
#include "host/weights/weights.hpp"
#include "kinora/error.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/support/plugins.hpp"

namespace core = kinora::core;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kinora::fuzz::Folder folder;
  const auto file = folder.write("config.json", data, size);
  for (const char* id : {"model/wan", "model/cosmos", "model/t5", "tokenizer/wan", "tokenizer/cosmos"}) {
    try {
      const auto component = core::or_throw(kinora::test::plugins().open(id));
      const auto options =
          core::or_throw(core::Options::make(*component.spec, core::read_config(file, *component.spec)));
      if (core::parameters_of(component, options).empty()) std::abort();
    } catch (const kinora::Error& e) {
      if (*e.what() == 0) std::abort();
    }
  }
  return 0;
}
