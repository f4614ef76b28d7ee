#include "plugins/models/dit/condition.hpp"

namespace kinora::dit {

using at::Tensor;

Condition::Condition(const Declare& outside, const Config& c, const std::string& id)
    : options_(c),
      id_(id),
      time_{outside.biased("t_embedder.1.linear_1", c.width(), c.width(), Init::normal(0.02)),
            outside.biased("t_embedder.1.linear_2", c.width(), c.width(), Init::normal(0.02))},
      signals_(outside.context(), signals_of(c, id), c.width(), c.text_size, id) {}

void Condition::operator()(const Ctx& ctx, const Named<Tensor>& in, const Tensor& x, const Videos& videos,
                           Shared& to) const {
  const Tensor waves = sinusoid(videos.timestep(in), options_.width(), true).to(x.scalar_type());
  const Tensor level = videos.rows(time_(ctx, waves));
  to.active = at::silu(signals_.add(ctx, in, videos, x.scalar_type(), level));

  if (!options_.cross_attention) return;
  const Text text = unconditional_if_hidden(read_text(in, x, videos.count(), options_.text_size, id_));
  to.text = text.tokens, to.text_mask = text.mask;
  signals_.append(ctx, in, to.text, to.text_mask);
  if (videos.packed()) to.text_table = joined_text(to.text, to.text_mask);
}

}  // namespace kinora::dit
