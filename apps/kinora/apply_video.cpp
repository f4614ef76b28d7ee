// kinora apply of a score to a video file: stage/video.read decodes it, and the score gets the tensors that it would
// get from a safetensors file: `video` [1, 3, T, H, W] and, if it takes it, `fps` [1].
#include <algorithm>
#include <cstdlib>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "apps/kinora/command.hpp"
#include "core/runtime/tensor_service.hpp"
#include "core/sample/sample.hpp"
#include "host/stages/one_stage.hpp"
#include "host/weights/safetensors.hpp"
#include "kinora/sample.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using core::json;

constexpr int64_t kMostBytes = int64_t{8} << 30;  // of decoded frames

// A folder for the tensors; it is removed with the object.
class TensorFolder {
 public:
  TensorFolder() {
    std::string name = (fs::temp_directory_path() / "kinora-apply-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw Error(KINORA_ERROR_IO, name + ": cannot be created; set TMPDIR to a writable folder");
    folder_ = name;
  }
  TensorFolder(const TensorFolder&) = delete;
  TensorFolder& operator=(const TensorFolder&) = delete;
  ~TensorFolder() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  fs::path file() const { return folder_ / "video.safetensors"; }

 private:
  fs::path folder_;
};

const core::TensorSpec* input_of(const core::ComponentSpec& spec, const std::string& name) {
  const auto it =
      std::find_if(spec.inputs.begin(), spec.inputs.end(), [&](const auto& t) { return t.name == name; });
  return it == spec.inputs.end() ? nullptr : &*it;
}

Sample decoded(core::Runtime& runtime, const std::string& file) {
  const auto threads = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 64);
  const core::OneStage read(runtime, "video.read", json{{"threads", threads}, {"memory", kMostBytes}});
  Sample in(core::key_of_name(fs::path(file).stem().string()));
  in.set("url", fs::absolute(file).string());
  return read(in);
}

// Frames [T, H, W, 3] of bytes as [1, 3, T, H, W] of E: uint8_t, or float in [-1, 1].
template <class E>
std::vector<E> channels_first(const kinora_dl_tensor& frames) {
  const auto* from = static_cast<const uint8_t*>(frames.data) + frames.byte_offset;
  const auto pixels = static_cast<size_t>(frames.shape[0] * frames.shape[1] * frames.shape[2]);
  std::vector<E> out(3 * pixels);
  for (size_t i = 0; i < pixels; ++i)
    for (size_t c = 0; c < 3; ++c) {
      const uint8_t value = from[3 * i + c];
      if constexpr (std::is_same_v<E, float>)
        out[c * pixels + i] = static_cast<float>(value) / 127.5F - 1;
      else
        out[c * pixels + i] = value;
    }
  return out;
}

// From the times of the first and the last frame; 0 of a single frame.
double frames_per_second(const Sample& video) {
  const json facts = json::parse(video.text("json").value_or("{}"), nullptr, false);
  const auto at = facts.is_object() ? facts.value("frames_at", std::vector<double>()) : std::vector<double>();
  return at.size() > 1 && at.back() > at.front()
             ? static_cast<double>(at.size() - 1) / (at.back() - at.front())
             : 0;
}

template <class E>
void write_inputs(const fs::path& file, const kinora_dl_tensor& frames, const double* fps) {
  const std::vector<E> pixels = channels_first<E>(frames);
  std::vector<core::SafeTensor> tensors(1);
  tensors[0].name = "video";
  tensors[0].dtype = std::is_same_v<E, float> ? core::SafeDtype::f32 : core::SafeDtype::u8;
  tensors[0].shape = {1, 3, frames.shape[0], frames.shape[1], frames.shape[2]};
  tensors[0].bytes = std::as_bytes(std::span(pixels));
  if (fps) {
    tensors.emplace_back();
    tensors[1].name = "fps";
    tensors[1].dtype = core::SafeDtype::f64;
    tensors[1].shape = {1};
    tensors[1].bytes = std::as_bytes(std::span(fps, 1));
  }
  core::or_throw(core::write_safetensors(file, std::move(tensors)));
}

}  // namespace

bool takes_video(const core::ComponentSpec& spec) {
  return spec.kind == "score" && input_of(spec, "video") &&
         std::all_of(spec.inputs.begin(), spec.inputs.end(),
                     [](const auto& t) { return t.is_optional || t.name == "video"; });
}

core::ApplyResult apply_to_video(core::Runtime& runtime, core::ApplyRequest request) {
  const auto& spec = *core::or_throw(runtime.registry().find(request.id));
  const TensorFolder folder;
  std::string damage;
  {  // the frames are released before the score reads them
    const Sample video = decoded(runtime, request.input);
    damage = core::damage_of(video);
    const kinora_dl_tensor* frames = video.tensor("frames");
    const double fps = frames_per_second(video);
    const double* known = fps > 0 && input_of(spec, "fps") ? &fps : nullptr;
    if (input_of(spec, "video")->dtype == "uint8")
      write_inputs<uint8_t>(folder.file(), *frames, known);
    else
      write_inputs<float>(folder.file(), *frames, known);
  }
  request.input.clear();
  request.inputs = folder.file();
  auto made = core::tensors().apply(runtime, request);
  made.problem = damage;
  return made;
}

}  // namespace kinora
