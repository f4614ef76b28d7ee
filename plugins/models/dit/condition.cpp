#include "plugins/models/dit/condition.hpp"

#include <cmath>

#include <ATen/ATen.h>

namespace kinora::dit {

using at::Tensor;

std::vector<Tensor> Shared::pack() const {
  std::vector<Tensor> out{active};
  if (text.defined()) out.push_back(text);
  if (text_mask.defined()) out.push_back(text_mask);
  if (text_table.defined()) out.push_back(text_table);
  for (const auto& t : turns) out.insert(out.end(), {t.cos, t.sin});
  out.insert(out.end(), rows.begin(), rows.end());
  return out;
}

Shared Shared::unpack(const std::vector<Tensor>& in, size_t from, const Form& form) {
  Shared s;
  s.active = in[from++];
  if (form.text) s.text = in[from++];
  if (form.masked) s.text_mask = in[from++];
  if (form.packed) s.text_table = in[from++];
  for (size_t i = 0; i < form.layouts; ++i, from += 2) s.turns.push_back({in[from], in[from + 1]});
  for (size_t i = 0; i < form.rows; ++i) s.rows.push_back(in[from++]);
  return s;
}

Tensor sinusoid(const Tensor& t, int64_t size) {
  const auto type = t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto half = size / 2;
  const Tensor exponent =
      at::arange(half, t.options().dtype(type)) * (-std::log(10000.0) / static_cast<double>(half));
  const Tensor angle = t.to(type).unsqueeze(-1) * at::exp(exponent);
  return at::cat({angle.sin(), angle.cos()}, -1);
}

Condition::Layer Condition::layer(const Declare& declare, const std::string& name, int64_t out, int64_t in,
                                  Init init) {
  return {declare(name + ".weight", {out, in}, init), declare.bias(name, out)};
}

Condition::Condition(const Declare& outside, const Config& c, const std::string& id)
    : options_(c),
      id_(id),
      time_in_(layer(outside, "t_embedder.1.linear_1", c.width(), c.width(), Init::normal(0.02))),
      time_out_(layer(outside, "t_embedder.1.linear_2", c.width(), c.width(), Init::normal(0.02))),
      signals_(outside.context(), signals_of(c, id), c.width(), c.text_size, id) {}

void Condition::refuse(const std::string& what) const { throw Error(KINORA_INVALID, id_ + ": " + what); }

void Condition::operator()(const Ctx& ctx, const Named<Tensor>& in, const Tensor& x, const Videos& videos,
                           Shared& to) const {
  const Tensor given = in["timestep"], t = given.dim() == 1 ? given.unsqueeze(1) : given;
  if (t.dim() != 2 || !videos.fit(t.size(0), t.size(1)))
    refuse(c10::str("timestep has shape ", given.sizes(), ", needed is ", videos.needed()));
  const Tensor waves = sinusoid(t, options_.width()).to(x.scalar_type());
  const Tensor level = videos.rows(time_out_(ctx, at::silu(time_in_(ctx, waves))));
  to.active = at::silu(signals_.add(ctx, in, videos, x.scalar_type(), level));

  if (!options_.cross_attention) return;
  text(in, x, videos.count(), to);
  signals_.append(ctx, in, to.text, to.text_mask);
  if (videos.packed()) to.text_table = joined_text(to.text, to.text_mask);
}

// No text, an all-zero text and a text without visible tokens give the same, unconditional result.
void Condition::text(const Named<Tensor>& in, const Tensor& x, int64_t B, Shared& to) const {
  const auto size = options_.text_size;
  if (!in.has("text")) {
    to.text = at::zeros({B, 1, size}, x.options());
    return;
  }
  to.text = in["text"].to(x.scalar_type());
  if (to.text.dim() != 3 || to.text.size(0) != B || to.text.size(2) != size)
    refuse(c10::str("text has shape ", to.text.sizes(), ", needed is [", B, ", L, ", size, "]"));
  if (!in.has("text_mask")) return;
  const Tensor mask = in["text_mask"].to(at::kBool);
  if (mask.sizes() != to.text.sizes().slice(0, 2))
    refuse(c10::str("text_mask has shape ", mask.sizes(), ", text ", to.text.sizes()));
  const Tensor some = mask.any(1, true);
  to.text = to.text * some.unsqueeze(-1).to(to.text.scalar_type());
  to.text_mask = mask | ~some;
}

}  // namespace kinora::dit
