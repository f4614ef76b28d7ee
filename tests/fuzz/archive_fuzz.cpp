// Any bytes as a TorchScript archive: readable parameters, or an error that names the file.
#include <cstdlib>

#include <ATen/ATen.h>

#include "core/torch/weights/published.hpp"
#include "kinora/error.hpp"
#include "tests/fuzz/files.hpp"

static volatile double sink;  // prevents the optimiser from removing the reads

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kinora::fuzz::Folder folder;
  const auto file = folder.write("input.jit", data, size);
  try {
    for (const auto& [name, t] : kinora::core::read_archive(file))
      sink = t.sum().to(at::kDouble).item<double>();
  } catch (const kinora::Error& e) {
    if (std::string(e.what()).find(file.string()) == std::string::npos) std::abort();
  }
  return 0;
}
