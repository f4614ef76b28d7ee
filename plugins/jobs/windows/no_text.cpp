#include "plugins/jobs/windows/no_text.hpp"

#include "core/io/contents.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "host/weights/weights.hpp"

namespace kinora::core {
namespace {

std::filesystem::path file_in(const std::filesystem::path& folder) {
  return folder / "empty_text.safetensors";
}

}  // namespace

void write_no_text(JobContext& context, const at::Tensor& encoded) {
  const auto file = file_in(context.folder());
  write_tensors(file, {{"text", encoded.contiguous()}});
  const ListedFile listed{file.filename().string(), std::filesystem::file_size(file), sha256_of_file(file)};
  context.summary["files"] = list_json({listed});
}

at::Tensor no_text_of(const JobView& train) {
  const JobSpec& encode = train.need_upstream("encode");
  if (!encode.options.at("encode_empty").get<bool>()) return {};
  const auto file = file_in(train.folder_of(encode));
  if (!std::filesystem::exists(file))
    raise(KINORA_ERROR_NOT_FOUND,
          "{} is missing; run job '{}' again: remove its folder, or set its encode_empty = false to train on "
          "zeros",
          file.string(), encode.name);
  require_as_listed(file);
  return read_tensors(file).at("text").clone();
}

}  // namespace kinora::core
