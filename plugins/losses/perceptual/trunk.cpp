#include "plugins/losses/perceptual/trunk.hpp"

namespace kinora::perceptual {
namespace {

using at::Tensor;
using L = TrunkLayer;

L conv(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
  return {L::conv, in, out, kernel, stride, padding};
}
L conv3(int64_t in, int64_t out) { return conv(in, out, 3, 1, 1); }
L relu() { return {L::relu}; }
L pool(int64_t kernel, bool ceil = false) { return {L::pool, 0, 0, kernel, 2, 0, ceil}; }
L fire(int64_t in, int64_t squeezed, int64_t out) { return {L::fire, in, out, squeezed}; }

// Simonyan and Zisserman 2015, configuration D.
Trunk vgg() {
  const auto block = [](int64_t in, int64_t out, int n) {
    std::vector<L> layers;
    if (in > 3) layers.push_back(pool(2));
    for (int i = 0; i < n; ++i) {
      layers.push_back(conv3(i ? out : in, out));
      layers.push_back(relu());
    }
    return layers;
  };
  return {{block(3, 64, 2), block(64, 128, 2), block(128, 256, 3), block(256, 512, 3), block(512, 512, 3)},
          {64, 128, 256, 512, 512}};
}

// Krizhevsky 2014, as in torchvision.
Trunk alex() {
  return {{{conv(3, 64, 11, 4, 2), relu()},
           {pool(3), conv(64, 192, 5, 1, 2), relu()},
           {pool(3), conv3(192, 384), relu()},
           {conv3(384, 256), relu()},
           {conv3(256, 256), relu()}},
          {64, 192, 384, 256, 256}};
}

// Iandola et al. 2016, version 1.1.
Trunk squeeze() {
  return {{{conv(3, 64, 3, 2, 0), relu()},
           {pool(3, true), fire(64, 16, 64), fire(128, 16, 64)},
           {pool(3, true), fire(128, 32, 128), fire(256, 32, 128)},
           {pool(3, true), fire(256, 48, 192)},
           {fire(384, 48, 192)},
           {fire(384, 64, 256)},
           {fire(512, 64, 256)}},
          {64, 128, 256, 384, 384, 512, 512}};
}

// Calls f(layer, its name before ".weight", whether it is a slice's last).
template <class F>
void each(const Trunk& trunk, F f) {
  int64_t n = 0;
  for (size_t s = 0; s < trunk.slices.size(); ++s)
    for (size_t i = 0; i < trunk.slices[s].size(); ++i)
      f(trunk.slices[s][i], "net.slice" + std::to_string(s + 1) + "." + std::to_string(n++),
        i + 1 == trunk.slices[s].size());
}

}  // namespace

const Trunk& trunk_of(const std::string& name) {
  static const std::map<std::string, Trunk> all = {{"vgg", vgg()}, {"alex", alex()}, {"squeeze", squeeze()}};
  return all.at(name);
}

std::map<std::string, std::vector<int64_t>> parameters_of(const Trunk& trunk) {
  std::map<std::string, std::vector<int64_t>> out;
  const auto add = [&](const std::string& name, int64_t in, int64_t n, int64_t kernel) {
    out[name + ".weight"] = {n, in, kernel, kernel};
    out[name + ".bias"] = {n};
  };
  each(trunk, [&](const L& l, const std::string& name, bool) {
    if (l.kind == L::conv) add(name, l.in, l.out, l.kernel);
    if (l.kind != L::fire) return;
    add(name + ".squeeze", l.in, l.kernel, 1);
    add(name + ".expand1x1", l.kernel, l.out, 1);
    add(name + ".expand3x3", l.kernel, l.out, 3);
  });
  return out;
}

std::vector<Tensor> features(const Trunk& trunk, const std::map<std::string, Tensor>& weights,
                             const Tensor& images) {
  const auto convolve = [&](const Tensor& x, const std::string& name, int64_t stride, int64_t padding) {
    return at::conv2d(x, weights.at(name + ".weight"), weights.at(name + ".bias"), {stride, stride},
                      {padding, padding});
  };
  std::vector<Tensor> out;
  Tensor x = images;
  each(trunk, [&](const L& l, const std::string& name, bool last) {
    if (l.kind == L::conv) x = convolve(x, name, l.stride, l.padding);
    if (l.kind == L::relu) x = at::relu(x);
    if (l.kind == L::pool) x = at::max_pool2d(x, l.kernel, l.stride, 0, 1, l.ceil);
    if (l.kind == L::fire) {
      const Tensor squeezed = at::relu(convolve(x, name + ".squeeze", 1, 0));
      x = at::relu(at::cat(
          {convolve(squeezed, name + ".expand1x1", 1, 0), convolve(squeezed, name + ".expand3x3", 1, 1)}, 1));
    }
    if (last) out.push_back(x);
  });
  return out;
}

}  // namespace kinora::perceptual
