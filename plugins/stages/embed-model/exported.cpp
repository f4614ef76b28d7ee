#include "exported.hpp"

#include <algorithm>
#include <cmath>
#include <dlfcn.h>

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "kinora/error.hpp"

namespace kinora::exported {
namespace {

std::string text_of(const std::exception& e) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&e);
  std::string text = of_torch ? of_torch->what_without_backtrace() : e.what();
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text.substr(0, 400);
}

Error unreadable(const std::filesystem::path& file, const std::exception& e) {
  return Error(KINORA_ERROR_INVALID, file.string() + " is not a model that libtorch can read (" + text_of(e) +
                                         "); write it with torch.jit.save, or as .pt2 with "
                                         "aoti_compile_and_package of the same PyTorch release");
}

class Script final : public Model {
 public:
  Script(const std::filesystem::path& file, at::Device device) try
      : module_(torch::jit::load(file.string(), device)) {
    module_.eval();
  } catch (const std::exception& e) {
    throw unreadable(file, e);
  }

 protected:
  std::vector<at::Tensor> forward(const at::Tensor& input) override {
    const c10::IValue out = module_.forward({input});
    std::vector<at::Tensor> all;
    if (out.isTensor()) return {out.toTensor()};
    if (out.isTensorList()) return out.toTensorVector();
    if (out.isTuple())
      for (const auto& one : out.toTupleRef().elements().asArrayRef())
        if (one.isTensor()) all.push_back(one.toTensor());
    if (out.isGenericDict())
      for (const auto& one : out.toGenericDict())
        if (one.value().isTensor()) all.push_back(one.value().toTensor());
    return all;
  }

 private:
  torch::jit::Module module_;
};

class Package final : public Model {
 public:
  Package(const std::filesystem::path& file, at::Device device) try
      : loader_(file.string(), "model", false, 1, device.is_cuda() ? device.index() : -1) {
  } catch (const std::exception& e) {
    throw unreadable(file, e);
  }

 protected:
  std::vector<at::Tensor> forward(const at::Tensor& input) override { return loader_.run({input}); }

 private:
  torch::inductor::AOTIModelPackageLoader loader_;
};

void require_own(const std::filesystem::path& file) {
  using std::filesystem::perms;
  if ((std::filesystem::status(file).permissions() & perms::others_write) != perms::none)
    throw Error(KINORA_ERROR_INVALID,
                file.string() + " is machine code that any user may change; run chmod o-w on it first");
}

}  // namespace

void Model::check(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file))
    throw Error(
        KINORA_ERROR_NOT_FOUND,
        file.string() + ": there is no such file; export a model to it as docs/curate/embeddings.md shows");
  if (file.extension() == ".pt2") require_own(file);
}

std::unique_ptr<Model> Model::open(const std::filesystem::path& file, at::Device device) {
  check(file);
  std::unique_ptr<Model> out;
  if (file.extension() == ".pt2") {
    out = std::make_unique<Package>(file, device);
  } else {
    out = std::make_unique<Script>(file, device);
  }
  out->file_ = file.filename().string();
  return out;
}

at::Tensor Model::operator()(const at::Tensor& input, int64_t output) {
  std::vector<at::Tensor> all;
  try {
    const at::NoGradGuard off;
    all = forward(input);
    if (output < static_cast<int64_t>(all.size()))
      return all[static_cast<size_t>(output)].to(at::kCPU, at::kFloat).contiguous();
  } catch (const std::exception& e) {
    throw Error(KINORA_ERROR_DATA,
                file_ + " failed on an input " + c10::str(input.sizes()) + ": " + text_of(e));
  }
  throw Error(KINORA_ERROR_DATA, file_ + " returned " + std::to_string(all.size()) +
                                     " tensors, so output = " + std::to_string(output) + " does not exist");
}

void check_device(const std::string& name) {
  try {
    if (name == "auto" || at::Device(name).is_cpu() || at::Device(name).is_cuda()) return;
  } catch (const c10::Error&) {  // no device's name
  }
  throw Error(KINORA_ERROR_INVALID, "device = \"" + name + "\": expected auto, cpu, cuda or cuda:1");
}

at::Device device_of(const std::string& name, const Run& run) {
  return chosen_device(name, run.device(), [] {
    // libtorch checks for CUDA only once, so the CUDA library must be loaded first.
    return dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) && at::hasCUDA() &&
           at::detail::getCUDAHooks().deviceCount() > 0;
  });
}

void use_threads(int64_t threads) {
  if (at::get_num_threads() != threads) at::set_num_threads(static_cast<int>(threads));
}

namespace {

// Scales x [F, 3, h, w] to cover the input and crops its centre, rounding as torchvision does; or stretches
// it.
at::Tensor fitted(const at::Tensor& x, const InputOptions& how) {
  const int64_t h = x.size(2), w = x.size(3);
  int64_t height = how.height, width = how.width;
  if (how.fit == "crop") {
    if (how.height * w >= how.width * h)
      width = how.height * w / h;
    else
      height = how.width * h / w;
  }
  const at::Tensor scaled = how.resample == "bicubic"
                                ? at::_upsample_bicubic2d_aa(x, {height, width}, false)
                                : at::_upsample_bilinear2d_aa(x, {height, width}, false);
  const auto middle = [](int64_t all, int64_t part) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(all - part) / 2));
  };
  return scaled.clamp(0, 1)
      .narrow(2, middle(height, how.height), how.height)
      .narrow(3, middle(width, how.width), how.width);
}

at::Tensor of_colours(const std::vector<double>& values) {
  return at::tensor(values, at::kFloat).view({1, 3, 1, 1});
}

}  // namespace

void InputOptions::check(const char* stage) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(KINORA_ERROR_INVALID, std::string(stage) + ": " + what);
  };
  if (mean.size() != 3 || deviation.size() != 3)
    refuse("mean and std must have three numbers each, for red, green and blue");
  if (std::any_of(deviation.begin(), deviation.end(), [](double v) { return !(v > 0); }))
    refuse("all numbers of std must be above 0");
}

at::ScalarType InputOptions::type() const {
  return dtype == "float16"    ? at::kHalf
         : dtype == "bfloat16" ? at::kBFloat16
         : dtype == "float64"  ? at::kDouble
                               : at::kFloat;
}

uint64_t InputOptions::memory(int64_t batch) const {
  constexpr uint64_t kSample = 32 << 20;
  const auto clip = static_cast<uint64_t>(frames * height * width) * 3 * sizeof(float);
  return static_cast<uint64_t>(batch) * 2 * clip + static_cast<uint64_t>(batch - 1) * kSample;
}

kinora_resources resources_of(const InputOptions& how, const std::filesystem::path& model, int64_t batch,
                              int64_t threads, const std::string& device) {
  return {sizeof(kinora_resources),
          2,
          static_cast<double>(threads),
          device == "cpu" ? 0.0 : 1.0,
          how.memory(batch) + std::filesystem::file_size(model),
          0,
          0,
          0,
          static_cast<uint32_t>(batch)};
}

std::vector<int64_t> spread(int64_t first, int64_t count, int64_t frames) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < frames; ++i) out.push_back(first + (2 * i + 1) * count / (2 * frames));
  return out;
}

at::Tensor prepared(const Pictures& pictures, const std::vector<int64_t>& indices, const InputOptions& how) {
  std::vector<at::Tensor> frames;
  for (const int64_t i : indices)
    frames.push_back(at::from_blob(const_cast<uint8_t*>(pictures.frame(i)),
                                   {pictures.height, pictures.width, 3}, at::kByte)
                         .permute({2, 0, 1})
                         .to(at::kFloat)
                         .div_(255));
  return (fitted(at::stack(frames), how) - of_colours(how.mean)) / of_colours(how.deviation);
}

at::Tensor laid_out(const std::vector<at::Tensor>& clips, int64_t batch, const InputOptions& how) {
  std::vector<at::Tensor> all = clips;
  while (static_cast<int64_t>(all.size()) < batch) all.push_back(all.back());
  const at::Tensor x = at::stack(all).to(how.type());  // [B, F, 3, H, W]
  if (how.layout == "BTCHW") return x;
  return how.layout == "BCTHW" ? x.transpose(1, 2).contiguous() : x.flatten(0, 1);
}

}  // namespace kinora::exported
