// A sampler in C++, see abi/sampler.h. Stable tier: float64 arithmetic through the host's operators.
#pragma once
#include "kinora/abi/sampler.h"
#include "kinora/options.hpp"
#include "kinora/run.hpp"
#include "kinora/tensor.hpp"

KINORA_SDK_BEGIN

namespace kinora {

class Denoiser {
 public:
  explicit Denoiser(const kinora_denoiser* d) : d_(d) {}
  // x0 [B, ...] float64 for x at the noise level sigma, the same for the whole batch.
  Tensor operator()(const Tensor& x, double sigma) const {
    return (*this)(x, op("aten::new_full", "", {x, std::vector<int64_t>{x.size(0)}, sigma}));
  }
  Tensor operator()(const Tensor& x, const Tensor& sigma) const {
    kinora_tensor out = nullptr;
    check(d_->denoise(d_->self, x.get(), sigma.get(), &out));
    return Tensor::adopt(out);
  }

  // Index into levels() at which sampling begins.
  size_t first() const { return static_cast<size_t>(d_->first); }
  // x at that level: `scale` times the unit noise, or the noise itself where the host passes x at that level.
  Tensor begin(const Tensor& noise, double scale) const {
    const Tensor x = noise.to(KINORA_DTYPE_FLOAT64);
    return first() == 0 ? x * scale : x;
  }

 private:
  const kinora_denoiser* d_;
};

// A subclass T has: struct Options; static void describe(Describe<Options>&); explicit T(const Options&).
class Sampler {
 public:
  static constexpr const char* kind = "sampler";
  static constexpr const char* interface_id = KINORA_INTERFACE_SAMPLER;
  static constexpr uint32_t mix = KINORA_MIX_VARIANCE_EXPLODING;  // a subclass may declare its own
  virtual ~Sampler() = default;
  // Noise levels that sample() will visit, descending.
  virtual std::vector<double> levels() const = 0;
  // noise [B, ...] float64, unit variance -> sample.
  virtual Tensor sample(const Denoiser& denoise, const Tensor& noise, const Run& run) = 0;

  template <class T>
  static const void* api() {
    static const kinora_sampler table{
        sizeof(kinora_sampler),
        T::mix,
        [](const kinora_host*, const kinora_options* o) -> void* {
          Sampler* made = nullptr;
          guard([&] { made = new T(described<T>().read(o)); });
          return made;
        },
        [](void* self) { delete static_cast<Sampler*>(self); },
        [](void* self, kinora_tensor* out) {
          return guard([&] { *out = tensor(static_cast<Sampler*>(self)->levels()).release(); });
        },
        [](void* self, const kinora_denoiser* d, kinora_tensor noise, const kinora_run* run,
           kinora_tensor* out) {
          return guard([&] {
            refuse_unknown(d->needs, "the denoiser");
            const GradMode off(false);
            *out =
                static_cast<Sampler*>(self)->sample(Denoiser(d), Tensor::borrow(noise), Run(run)).release();
          });
        }};
    return &table;
  }
};

}  // namespace kinora

KINORA_SDK_END
