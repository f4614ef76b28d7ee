// Any bytes as the event file of a resumed training job: new records are appended after complete
// ones.
#include <cstdlib>

#include "kinora/error.hpp"
#include "plugins/jobs/training/tensorboard.hpp"
#include "tests/fuzz/files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kinora::fuzz::Folder folder;
  const auto file = folder.write("events.out.tfevents.1.here", data, size);
  uintmax_t before = 0;
  {
    kinora::core::TensorBoard board(folder.path(), 2);
    before = std::filesystem::file_size(file);
    board.scalar(3, "train/loss", 0.5);
    board.flush();
  }
  // After reopening, everything is kept: records up to step 3.
  const uintmax_t after = std::filesystem::file_size(file);
  if (after <= before) std::abort();
  kinora::core::TensorBoard(folder.path(), 3);
  if (std::filesystem::file_size(file) != after) std::abort();
  return 0;
}
