// The service of plugins/jobs/train/training_plans.hpp.
#include "plugins/jobs/train/training_plans.hpp"

#include <algorithm>
#include <charconv>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/plugin/service.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/network_checks.hpp"
#include "plugins/jobs/inference/rehearsal.hpp"
#include "plugins/jobs/inference/rules.hpp"
#include "plugins/jobs/train/outline_link.hpp"
#include "plugins/jobs/train/small_dit.hpp"
#include "plugins/jobs/training/buckets.hpp"
#include "plugins/jobs/training/sample_draws.hpp"
#include "plugins/jobs/windows/encode_options.hpp"
#include "plugins/jobs/windows/encoded.hpp"
#include "plugins/jobs/windows/live_split.hpp"
#include "plugins/jobs/windows/live_windows.hpp"

namespace kinora::core {
namespace {

at::Tensor shaped(const std::vector<int64_t>& shape, at::ScalarType dtype = at::kFloat) {
  return at::empty(shape, at::TensorOptions().device(at::kMeta).dtype(dtype));
}

const TensorSpec* input_of(const ComponentSpec& spec, const std::string& name) {
  const auto it =
      std::find_if(spec.inputs.begin(), spec.inputs.end(), [&](const auto& i) { return i.name == name; });
  return it == spec.inputs.end() ? nullptr : &*it;
}

// Dimension `at` of the manifest's shape, "[B, in_channels, T, H, W]": a number, or the option of that name;
// 0: neither.
int64_t dimension(const TensorSpec& input, size_t at, const json& options) {
  const auto shapes = input.shapes();
  if (shapes.empty() || at >= shapes[0].size()) return 0;
  const std::string& word = shapes[0][at];
  int64_t n = 0;
  std::from_chars(word.data(), word.data() + word.size(), n);
  if (n > 0) return n;
  const auto option = options.find(word);
  return option != options.end() && option->is_number_integer() ? option->get<int64_t>() : 0;
}

// The sizes to try for a dimension: the manifest's, then the encode job's, which is the right one where a
// preset sets the option. {0}: the model has no such input, or nothing says the size.
std::vector<int64_t> sizes_of(const ComponentUse& use, const ComponentSpec& spec, const char* name, size_t at,
                              int64_t encoded) {
  const TensorSpec* its = input_of(spec, name);
  if (!its) return {0};
  std::vector<int64_t> out{dimension(*its, at, use.options.values())};
  if (out[0] == 0) return {encoded};
  if (encoded > 0 && encoded != out[0]) out.push_back(encoded);
  return out;
}

// The embeddings of a picture, [1, L, D], if the encode job caches them and the model takes them.
at::Tensor picture_of(const JobCheck& check, const ComponentSpec& spec) {
  const JobSpec* encode = check.upstream("encode");
  const ComponentUse* encoder = encode ? encode->component("image_encoder") : nullptr;
  if (!encoder || !input_of(spec, "image")) return {};
  const auto edge = encoder->options.values().value("image_size", int64_t{0});
  return on_meta<Model>({check.runtime(), check.run(), *encode}, *encoder)
      ->forward({{"image", shaped({1, 3, edge, edge})}})
      .at(0);
}

ModelOutline outline_of(const JobView& job, const ComponentUse& use, const NamedTensors& in) {
  const at::NoGradGuard off;
  OutlineLink link;
  Model network(job.open(use), use.options, {.device = at::kMeta}, {link.get()});
  kinora_pass pass{};
  pass.struct_size = sizeof pass;
  pass.no_grad = 1;
  network.chain().begin(pass);
  network.forward(in);
  ModelOutline out = link.outline();
  out.model = use.id;
  return out;
}

// Throws the error of a model that accepted no inputs, with a remedy if it read values.
[[noreturn]] void refuse_outline(const ComponentUse& use, const Error& why) {
  if (why.code() == KINORA_ERROR_INVALID) throw why;
  std::string text = why.what();
  text.resize(std::min(text.find('\n'), text.size()));
  raise(KINORA_ERROR_UNSUPPORTED,
        "plan: {} does not run on the meta device, where tensors have shapes and no values: {}; let its "
        "forward "
        "depend on shapes alone, without reading values (item(), data())",
        use.id, text);
}

// The outline for latents of the given size, else of the encode job's. Tries
// the sizes of channels and texts in turn; if the model accepts none, throws an error with the first one's
// reason.
ModelOutline outline_model(const JobView& train, const std::optional<LatentSize>& given) {
  std::vector<Diagnostic> ignored;
  const JobCheck check(train.runtime(), train.run(), train.spec(), true, 0, ignored);
  const auto encoded = encoded_for(check);
  if (!encoded && !given)
    raise(KINORA_ERROR_INVALID,
          "plan: job '{}' reads no encode job that gives the size of its latents; give --latent TxHxW",
          train.spec().name);
  const auto& use = *train.spec().component("model");
  const auto& spec = *or_throw(train.runtime().registry().find("model", use.id));
  const JobSpec* encode = train.upstream("encode");
  const ShotCut cut = cut_of(train.options<TrainOptions>());
  const int64_t L = cut.shots * (encode ? encode->options.at("max_tokens").get<int64_t>() : 512);
  const auto size = [&] {
    auto shape = encoded->shape;
    if (cut.shots > 1) shape = joined_shape(std::move(shape), cut);
    return LatentSize{*(shape.end() - 3), *(shape.end() - 2), shape.back()};
  };
  const LatentSize latent = given ? *given : size();
  const std::vector<int64_t> video(latent.begin(), latent.end());
  std::optional<Error> first;
  const bool of_codes = !input_of(spec, "latent") && input_of(spec, "codes");
  const int64_t channels = encoded && !encoded->of_codes() ? encoded->shape[0] : 0;
  for (const int64_t C : sizes_of(use, spec, "latent", 1, channels))
    for (const int64_t D : sizes_of(use, spec, "text", 2, encoded ? encoded->text_size : 0)) {
      NamedTensors in;
      if (of_codes) in["codes"] = shaped({1, video[0], video[1], video[2]}, at::kLong);
      if (C > 0) in["latent"] = shaped({1, C, video[0], video[1], video[2]});
      if (D > 0) in["text"] = shaped({1, L, D});
      if (input_of(spec, "timestep")) in["timestep"] = shaped({1});
      try {
        return with_plain_errors([&] {
          in["image"] = picture_of(check, spec);
          return outline_of(train, use, in);
        });
      } catch (const Error& e) {
        if (!first) first = e;
      }
    }
  refuse_outline(use, *first);
}

std::string refusal_of_layout(const JobView& train, int64_t ranks) {
  const auto found = catching([&] {
    return with_plain_errors([&] {
      return Rehearsal(train, Parallelism::axes(train, ranks)).declare(*train.spec().component("model"), {});
    });
  });
  return found ? "" : found.failure().message;
}

// The sizes of the latents of a job's windows, slot by slot.
class SizesOfSlots {
 public:
  SizesOfSlots(const JobView& encode, double held_out)
      : options_(encode.options<EncodeOptions>()),
        part_(part_of(encode, "tokenizer", "tokenizer_weights", "train-tokenizer")),
        info_(on_meta<Tokenizer>(encode, *part_.use)->info()),
        windows_(encode, window_sizes(options_), options_.every),
        split_{held_out} {}

  LatentSize of(uint64_t slot) {
    const auto window = windows_.size(
        slot, [&](const std::string& key) { return split_.accepts(/*of_validation=*/false, key); });
    const auto& id = part_.use->id;
    return {latent_frames(info_, id, window.frames), latent_rows(info_, id, window.height),
            latent_columns(info_, id, window.width)};
  }

 private:
  EncodeOptions options_;
  Part part_;
  kinora_tokenizer_info info_;
  LiveWindows windows_;
  LiveSplit split_;
};

}  // namespace

class PlansOfTrain final : public TrainingPlans {
 public:
  using Interface = TrainingPlans;
  static constexpr const char* kHelp =
      "Outlines the model of a train job, judges its layouts, orders its samples and measures a step";

  ModelOutline outline(const JobView& train, const std::optional<LatentSize>& latent) const override {
    return with_plain_errors([&] { return outline_model(train, latent); });
  }
  std::string layout_refusal(const JobView& train, int64_t ranks) const override {
    return refusal_of_layout(train, ranks);
  }
  std::vector<std::vector<std::vector<uint64_t>>> divided_steps(const JobView& encode,
                                                                const StepDivision& in) const override {
    return with_plain_errors([&] {
      SizesOfSlots sizes_of(encode, in.held_out);
      std::vector<std::vector<std::vector<uint64_t>>> out;
      for (uint64_t first = in.first; first < in.first + in.steps * in.batch; first += in.batch) {
        std::vector<LatentSize> sizes;
        for (uint64_t slot = first; slot < first + in.batch; ++slot) sizes.push_back(sizes_of.of(slot));
        const auto rows = divided(sizes, in.accumulate * in.ranks, in.buckets).rows;
        std::vector<std::vector<uint64_t>> of_rank(in.ranks);
        for (size_t row = 0; row < rows.size(); ++row)
          for (const size_t i : rows[row]) of_rank[row % in.ranks].push_back(first + i);
        out.push_back(of_rank);
      }
      return out;
    });
  }
  StepRate step_rate(Runtime& runtime) const override {
    return with_plain_errors([&] { return measured_step_rate(runtime); });
  }
};

}  // namespace kinora::core

KINORA_SERVICE(PlansOfTrain)
