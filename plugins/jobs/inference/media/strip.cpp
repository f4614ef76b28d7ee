#include "plugins/jobs/inference/media/strip.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/io/atomic_file.hpp"
#include "core/stages/one_stage.hpp"
#include "plugins/jobs/inference/media/clips.hpp"

namespace kinora::core {

void write_strip(JobContext& context, const at::Tensor& frames, int64_t count,
                 const std::filesystem::path& file, const std::string& comment) {
  const int64_t n = std::min(count, frames.size(0));
  const at::Tensor at = at::linspace(0, static_cast<double>(frames.size(0) - 1), n).round().to(at::kLong);
  Sample sample("strip");
  set_frames(sample, frames.index_select(0, at));
  if (!comment.empty()) sample.set("comment", comment);
  const OneStage write(context.runtime(), "video.write", json{{"format", "png"}});
  const Sample made = write(sample);
  const auto bytes = *made.bytes("png");
  or_throw(write_file_atomically(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

void use_threads(int64_t threads) {
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
}

}  // namespace kinora::core
