#include "plugins/jobs/media/strip.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/io/atomic_file.hpp"
#include "host/stages/one_stage.hpp"
#include "plugins/jobs/media/clips.hpp"

namespace kinora::core {

at::Tensor strip_numbers(int64_t frames, int64_t count) {
  return at::linspace(0, static_cast<double>(frames - 1), std::min(count, frames)).round().to(at::kLong);
}

void write_row(JobContext& context, const at::Tensor& frames, const json& options,
               const std::filesystem::path& file, const std::string& comment) {
  Sample sample("row");
  set_frames(sample, frames);
  if (!comment.empty()) sample.set("comment", comment);
  const OneStage write(context.runtime(), "video.write", options);
  const Sample made = write(sample);
  const auto bytes = *made.bytes(file.extension().string().substr(1).c_str());
  or_throw(write_file_atomically(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

void write_strip(JobContext& context, const at::Tensor& frames, int64_t count,
                 const std::filesystem::path& file, const std::string& comment) {
  write_row(context, frames.index_select(0, strip_numbers(frames.size(0), count)), {{"format", "png"}}, file,
            comment);
}

void use_threads(int64_t threads) {
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
}

}  // namespace kinora::core
