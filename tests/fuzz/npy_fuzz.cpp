// Any bytes as a .npy file: as many numbers as its shape says, or an error that names the file.
#include <cstdlib>
#include <string_view>

#include "kinora/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto read = kinora::read_npy({reinterpret_cast<const char*>(data), size}, "x.npy");
    if (read.values.size() * sizeof(float) > size || read.rows() < 0) std::abort();
    if (static_cast<size_t>(read.rows()) * static_cast<size_t>(read.columns()) != read.values.size())
      std::abort();
    double sum = 0;  // every row is within the numbers
    for (int64_t i = 0; i < read.rows() && read.columns() > 0; ++i) sum += read.row(i).back();
    static_cast<void>(sum);
    const auto again = kinora::read_npy(kinora::to_npy(read.values, read.shape), "again");
    if (again.shape != read.shape) std::abort();
  } catch (const kinora::Error& e) {
    if (std::string_view(e.what()).find(".npy: ") == std::string_view::npos || e.code() != KINORA_ERROR_DATA)
      std::abort();
  }
  return 0;
}
