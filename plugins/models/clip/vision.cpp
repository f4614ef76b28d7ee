// model/clip-vision: names are those of published CLIP checkpoints (transformers'
// CLIPVisionModelWithProjection).
#include "kinora/plugin.hpp"
#include "plugins/models/clip/layer.hpp"

namespace kinora::clip {

// By default ViT-H/14 of LAION, the image encoder of Wan 2.1's image-to-video models.
struct VisionConfig : Config {
  int64_t image_size = 224, patch_size = 14, num_channels = 3;
  int64_t skip_layers = 1;
  VisionConfig() {
    hidden_size = 1280, intermediate_size = 5120;
    num_hidden_layers = 32, num_attention_heads = 16;
    hidden_act = "gelu";
    projection_dim = 1024;
  }
};

using at::Tensor;

namespace {

VisionConfig checked(const VisionConfig& c) {
  const auto refuse = [](const std::string& what) {
    throw Error(KINORA_ERROR_INVALID, "model/clip-vision: " + what);
  };
  if (c.skip_layers > c.num_hidden_layers)
    refuse("skip_layers = " + std::to_string(c.skip_layers) + " is more than num_hidden_layers");
  if (c.patch_size > c.image_size) refuse("patch_size is more than image_size");
  return c;
}

}  // namespace

class Vision final : public Model<at::Tensor> {
 public:
  using Options = VisionConfig;
  static void describe(Describe<Options>& d);
  Vision(const Options& o, const Ctx& ctx);
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return c_.num_hidden_layers + 2; }

 private:
  at::Tensor embed(const Ctx& ctx, const at::Tensor& image) const;
  // The results of block `index`: x, and the output tokens once they are known.
  std::vector<at::Tensor> with_output(int64_t index, const at::Tensor& x,
                                      const std::vector<at::Tensor>& in) const;
  int64_t output_block() const { return c_.num_hidden_layers - c_.skip_layers; }

  Options c_;
  int64_t side_;  // number of patches
  kinora_param class_, patches_, positions_;
  LayerNorm pre_norm_;
  Linear projection_;
  std::vector<Layer> layers_;
  LayerNorm post_norm_;
};

void Vision::describe(Describe<Options>& d) {
  d.name("clip-vision").help("CLIP's image encoder, by default ViT-H/14 as in Wan's image-to-video models");
  d.input("image", "[B, num_channels, image_size, image_size]", "float",
          "normalised by CLIP's mean and deviation");
  d.output("output", "[B, 1 + (image_size / patch_size)^2, hidden_size]", "float",
           "hidden states skip_layers before the last, the class token first, not normalised");
  d.output("pooled", "[B, hidden_size]", "float", "the class token after all layers, normalised");
  d.output("embed", "[B, projection_dim]", "float", "pooled in the shared space, with projection = true");
  Config of;
  of.hidden_size = 768, of.intermediate_size = 3072, of.num_attention_heads = 12;
  describe_layers(d, "vision", of);
  d.option("image_size", &Options::image_size)
      .range(1, 16384)
      .unit("pixels")
      .help("rows and columns of an image")
      .config({"vision_config.image_size ?? 224"});
  d.option("patch_size", &Options::patch_size)
      .range(1, 4096)
      .unit("pixels")
      .help("rows and columns of a token")
      .config({"vision_config.patch_size ?? 32"});
  d.option("num_channels", &Options::num_channels)
      .range(1, 64)
      .help("channels of an image")
      .config({"vision_config.num_channels ?? 3"});
  d.option("skip_layers", &Options::skip_layers)
      .range(0, 256)
      .help("layers at the end that output skips; Wan uses the last but one hidden state: 1");
}

Vision::Vision(const Options& o, const Ctx& ctx)
    : c_(checked(o)),
      side_(o.image_size / o.patch_size),
      class_(Declare(ctx, "vision_model.embeddings.", 0)("class_embedding", {o.hidden_size},
                                                         Init::normal(0.02))),
      patches_(Declare(ctx, "vision_model.embeddings.", 0)
                   .weight("patch_embedding", {o.hidden_size, o.num_channels, o.patch_size, o.patch_size},
                           Init::normal(0.02))),
      positions_(Declare(ctx, "vision_model.embeddings.", 0)
                     .weight("position_embedding", {side_ * side_ + 1, o.hidden_size}, Init::normal(0.02),
                             Role::table)),
      pre_norm_(Declare(ctx, "vision_model.", 0)
                    .layer_norm("pre_layrnorm", o.hidden_size,
                                o.layer_norm_eps)),  // spelled like this in every checkpoint
      post_norm_(Declare(ctx, "vision_model.", o.num_hidden_layers + 1)
                     .layer_norm("post_layernorm", o.hidden_size, o.layer_norm_eps)) {
  for (int64_t i = 1; i <= o.num_hidden_layers; ++i) layers_.emplace_back(ctx, o, "vision_model.", i);
  if (o.projection)
    projection_ = Declare(ctx, "", blocks() - 1)
                      .linear("visual_projection", o.projection_dim, o.hidden_size, fan_in(o.hidden_size));
}

Tensor Vision::embed(const Ctx& ctx, const Tensor& image) const {
  const auto as = [&](kinora_param p) { return value_as(ctx, p, image); };
  const Tensor patches = at::conv2d(image, as(patches_), {}, c_.patch_size).flatten(2).transpose(1, 2),
               first = as(class_).expand({image.size(0), 1, -1});
  return pre_norm_(ctx, at::cat({first, patches}, 1) + as(positions_));
}

std::vector<Tensor> Vision::with_output(int64_t index, const Tensor& x, const std::vector<Tensor>& in) const {
  if (index < output_block() || c_.skip_layers == 0) return {x};
  return {x, index == output_block() ? x : in[1]};
}

std::vector<Tensor> Vision::forward(const Ctx& ctx, const Named<Tensor>& in) {
  const Tensor& image = in["image"];
  if (image.dim() != 4 || image.size(1) != c_.num_channels || image.size(2) != c_.image_size ||
      image.size(3) != c_.image_size)
    throw Error(KINORA_ERROR_INVALID,
                c10::str("model/clip-vision: image is ", image.sizes(), "; [B, ", c_.num_channels, ", ",
                         c_.image_size, ", ", c_.image_size, "] is expected"));
  using Tensors = std::vector<Tensor>;
  const auto count = [&](int64_t i) { return i < output_block() || c_.skip_layers == 0 ? 1U : 2U; };
  Tensors flow = ctx.block(0, {image}, {}, count(0),
                           [this, ctx](const Tensors& t) { return with_output(0, embed(ctx, t[0]), t); });
  for (int64_t i = 1; i <= c_.num_hidden_layers; ++i)
    flow = ctx.block(i, flow, {}, count(i), [this, ctx, i](const Tensors& t) {
      return with_output(i, layers_[static_cast<size_t>(i - 1)](ctx, t[0], {}, {}), t);
    });
  return ctx.block(blocks() - 1, flow, {}, c_.projection ? 3 : 2, [this, ctx](const Tensors& t) {
    Tensors out{t.back(), post_norm_(ctx, t[0].select(1, 0))};
    if (c_.projection) out.push_back(projection_(ctx, out[1]));
    return out;
  });
}

KINORA_COMPONENT(Vision)
KINORA_PLUGIN(Text, Vision)

}  // namespace kinora::clip
