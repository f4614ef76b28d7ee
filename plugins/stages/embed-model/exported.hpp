// Models exported by PyTorch, and frames as their inputs.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "kinora/abi/stage.h"
#include "kinora/curation.hpp"
#include "kinora/options.hpp"
#include "kinora/run.hpp"
#include "kinora/stage.hpp"

namespace kinora::exported {

// A TorchScript archive, or an AOTInductor package (.pt2), which is machine code.
class Model {
 public:
  // Error(KINORA_ERROR_INVALID), which names the file and how to write it, if libtorch cannot read it. A
  // package that other users may write is refused, because it is code.
  static std::unique_ptr<Model> open(const std::filesystem::path& file, at::Device device);
  // Error(KINORA_ERROR_NOT_FOUND) or (KINORA_ERROR_INVALID) for a missing file, or a package that other users
  // may write.
  static void check(const std::filesystem::path& file);
  virtual ~Model() = default;
  // Returns output number `output` of the model, float32 on the CPU. One thread at a time.
  // Error(KINORA_ERROR_DATA) with libtorch's text.
  at::Tensor operator()(const at::Tensor& input, int64_t output);

 protected:
  virtual std::vector<at::Tensor> forward(const at::Tensor& input) = 0;
  std::string file_;
};

// Error(KINORA_ERROR_INVALID) unless it is "auto", "cpu", "cuda" or "cuda:1". Touches no device.
void check_device(const std::string& name);
// "auto": the device that the engine has reserved, or the CPU if libtorch cannot use it; "cuda": the same, or the first
// GPU. can_use_gpus() is asked only where the answer depends on it.
template <class CanUseGpus>
at::Device chosen_device(const std::string& name, const Device& reserved, CanUseGpus&& can_use_gpus) {
  if (name == "cpu" || (name == "auto" && !reserved.is_cuda)) return at::kCPU;
  if (!can_use_gpus()) {
    if (name == "auto") return at::kCPU;
    throw Error(KINORA_ERROR_UNSUPPORTED,
                "device = \"" + name + "\": libtorch finds no GPU here; use \"cpu\"");
  }
  const at::Device device(name == "auto" ? "cuda" : name);
  return device.has_index() ? device : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(reserved.index));
}
// The same on this machine.
at::Device device_of(const std::string& name, const Run& run);

// Sets the number of threads of tensor operations started by this thread. The last bits of results depend on
// it.
void use_threads(int64_t threads);

// How frames become an input: B clips of F frames each.
struct InputOptions {
  std::string layout = "BCHW";  // BTCHW [B, F, 3, H, W], BCTHW [B, 3, F, H, W], BCHW [B * F, 3, H, W]
  int64_t frames = 8, height = 224, width = 224;
  std::string fit = "crop", resample = "bicubic", dtype = "float32";
  std::vector<double> mean{0.48145466, 0.4578275, 0.40821073}, deviation{0.26862954, 0.26130258, 0.27577711};

  template <class Options>
  static void describe(Describe<Options>& d) {
    d.option("layout", &Options::layout)
        .choices({"BCHW", "BTCHW", "BCTHW"})
        .help("layout of the model's input; BCHW: an image model, whose outputs are averaged over a clip");
    d.option("frames", &Options::frames)
        .range(1, 4096)
        .help("number of frames per clip, evenly spaced; a shorter clip repeats some");
    d.option("height", &Options::height).range(1, 16384).unit("pixels").help("height of the model's input");
    d.option("width", &Options::width).range(1, 16384).unit("pixels").help("width of the model's input");
    d.option("fit", &Options::fit).choices({"crop", "stretch"}).help("treatment of a different aspect ratio");
    d.option("resample", &Options::resample)
        .choices({"bicubic", "bilinear"})
        .help("interpolation, with antialiasing, as in torchvision");
    d.option("mean", &Options::mean)
        .help("mean per channel, subtracted from colours in 0..1; default: CLIP's");
    d.option("std", &Options::deviation)
        .help("standard deviation per channel, a divisor applied after the mean; default: CLIP's");
    d.option("dtype", &Options::dtype)
        .choices({"float32", "float16", "bfloat16", "float64"})
        .help("data type of the model's input");
  }
  // Checks the options; Error(KINORA_ERROR_INVALID) names the bad one.
  void check(const char* stage) const;
  at::ScalarType type() const;
  // Estimated bytes of a batch: its input twice, and the frames of the samples that wait.
  uint64_t memory(int64_t batch) const;
};

// Resources of a stage that gives the model batches of these inputs.
kinora_resources resources_of(const InputOptions& how, const std::filesystem::path& model, int64_t batch,
                              int64_t threads, const std::string& device);

struct ModelOptions : InputOptions {
  std::string model, name = "model", device = "auto";
  int64_t output = 0, batch = 8, threads = 1;

  template <class Options>
  static void describe_device(Describe<Options>& d) {
    d.option("device", &Options::device)
        .help("device: auto (a GPU that the engine has, else the CPU), cpu, cuda, cuda:1");
    d.option("threads", &Options::threads)
        .range(1, 1024)
        .help("number of threads of tensor operations; the last bits of the result depend on it");
  }
};

// A stage that gives batches to a model.
template <class Options>
class ModelStage : public Stage {
 public:
  void start(const Run& run) override {
    device_ = device_of(options_.device, run);
    model_ = Model::open(options_.model, device_);
  }
  void process(Sample in, const Emit& emit, const Run& run) override { process_batch({&in, 1}, emit, run); }
  // One instance, in the order of the source: every run forms the same batches.
  kinora_resources resources() const override {
    return resources_of(options_, options_.model, options_.batch, options_.threads, options_.device);
  }

 protected:
  explicit ModelStage(const Options& options) : options_(options) {}
  Options options_;
  std::unique_ptr<Model> model_;
  at::Device device_ = at::kCPU;
};

// Indices of `frames` frames out of `count`: the centres of equal parts.
std::vector<int64_t> spread(int64_t first, int64_t count, int64_t frames);

// Returns the frames at these indices: [F, 3, H, W], scaled, normalised, float32.
at::Tensor prepared(const Pictures& pictures, const std::vector<int64_t>& indices, const InputOptions& how);

// Stacks clips [F, 3, H, W] into one input, padded to `batch` by repeating the last one: the model always
// receives the same shape, so a clip's result does not depend on the batch.
at::Tensor laid_out(const std::vector<at::Tensor>& clips, int64_t batch, const InputOptions& how);

}  // namespace kinora::exported
