#include "plugins/jobs/windows/kept_latents.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <ATen/ATen.h>

#include "core/base/digest.hpp"
#include "core/io/contents.hpp"
#include "core/run/identity.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "host/weights/weights.hpp"
#include "plugins/jobs/inference/parts.hpp"
#include "plugins/jobs/loading/transforms.hpp"

namespace kinora::core {
namespace {

constexpr std::array kDtypes{at::kByte,     at::kInt,   at::kLong,  at::kHalf,
                             at::kBFloat16, at::kFloat, at::kDouble};

json maker_of(const JobView& encode, const ComponentUse& use, const WeightsPaths& weights,
              Contents& contents) {
  json out = identity_of(encode.run(), use, contents);
  const auto kept = kept_digests(encode.run().out);
  if (!weights.empty()) out["weights"] = weights_digest(weights_files(weights, *encode.open(use).spec), kept);
  return out;
}

std::string maker_of(const JobView& encode, const EncodeOptions& o) {
  const Part tokenizer = part_of(encode, "tokenizer", "tokenizer_weights", "train-tokenizer");
  Contents contents(kept_digests(encode.run().out));
  json out{{"kinora", "latents/1"},
           {"tokenizer", maker_of(encode, *tokenizer.use, tokenizer.weights, contents)},
           {"every", o.every},
           {"first_frame", o.first_frame}};
  if (o.last_frame) out["last_frame"] = true;
  if (const auto* image = encode.spec().component("image_encoder"))
    out["image_encoder"] = maker_of(encode, *image, o.image_encoder_weights, contents);
  contents.save();
  return out.dump();
}

// Whether the field changes no latent.
bool is_beside(std::string_view field) { return field == "txt" || field == "json" || field == "slot"; }

// The tensor at the front of `bytes`, which then begins behind it; undefined if it is not whole.
at::Tensor tensor_from(const json& entry, std::string_view& bytes) {
  const auto dtype = static_cast<at::ScalarType>(entry.at(1).get<int>());
  const auto shape = entry.at(2).get<std::vector<int64_t>>();
  if (std::find(kDtypes.begin(), kDtypes.end(), dtype) == kDtypes.end()) return {};
  uint64_t size = c10::elementSize(dtype);
  for (const int64_t n : shape)
    if (n < 1 || __builtin_mul_overflow(size, static_cast<uint64_t>(n), &size) || size > bytes.size())
      return {};
  const at::Tensor out = at::empty(shape, dtype);
  std::memcpy(out.data_ptr(), bytes.data(), size);
  bytes.remove_prefix(size);
  return out;
}

// Empty if the bytes are not those of tensors.
NamedTensors tensors_from(std::string_view bytes) {
  const size_t line = std::min(bytes.find('\n'), bytes.size());
  const json table = json::parse(bytes.substr(0, line), nullptr, false);
  bytes.remove_prefix(std::min(line + 1, bytes.size()));
  NamedTensors out;
  try {
    for (const auto& entry : table) {
      at::Tensor tensor = tensor_from(entry, bytes);
      if (!tensor.defined()) return {};
      out[entry.at(0).get<std::string>()] = std::move(tensor);
    }
  } catch (const json::exception&) {
    return {};
  }
  return bytes.empty() ? out : NamedTensors();
}

}  // namespace

void require_kept_latents(const JobView& encode, const EncodeOptions& o) {
  if (o.latent_cache.empty()) return;
  if (!encode.spec().data)
    raise(KINORA_ERROR_INVALID,
          "latent_cache is for a table of data; this job stores all latents in latents.h5; leave it out");
  const auto lists = transform_lists(encode.runtime().registry(), encode.spec().list("transforms"));
  if (!lists.of_windows.empty())
    raise(KINORA_ERROR_INVALID,
          "latent_cache: {} changes the decoded frames, so that hardly a latent would be found again; leave "
          "latent_cache out, or the transforms from this one on",
          lists.of_windows[0].at("use").get<std::string>());
}

KeptLatents::KeptLatents(const JobView& encode, const EncodeOptions& o)
    : maker_(maker_of(encode, o)), cache_(o.latent_cache, static_cast<uint64_t>(o.latent_cache_limit)) {}

std::string KeptLatents::name_of(const Sample& clip, int64_t first, const WindowSize& size) const {
  Sha256 out;
  const auto add = [&](std::string_view text) {
    const uint64_t length = text.size();
    out.add(&length, sizeof length);
    out.add(text.data(), text.size());
  };
  add(maker_);
  add(fmt::format("{} {} {} {}", first, size.frames, size.height, size.width));
  for (const auto& field : clip.fields()) {
    if (is_beside(field.name)) continue;
    add(field.name);
    add({reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()});
  }
  return out.hex();
}

std::optional<NamedTensors> KeptLatents::find(const std::string& name) {
  const auto bytes = cache_.find(name);
  auto out = bytes ? tensors_from(*bytes) : NamedTensors();
  if (out.empty()) return std::nullopt;
  ++hits_;
  return out;
}

void KeptLatents::keep(const std::string& name, const NamedTensors& tensors) {
  json table = json::array();
  std::string numbers;
  for (const auto& [its, tensor] : tensors) {
    const at::Tensor whole = tensor.contiguous();
    table.push_back({its, static_cast<int>(whole.scalar_type()), whole.sizes().vec()});
    numbers.append(static_cast<const char*>(whole.data_ptr()), whole.nbytes());
  }
  const std::string bytes = table.dump() + "\n" + numbers;
  cache_.keep(name, bytes.data(), bytes.size());
}

}  // namespace kinora::core
