// Keys and values of the text, as the layers of cross-attention project them: each is computed once a text, not
// once a forward.
#pragma once
#include <map>
#include <memory>

#include "kinora/abi/context.h"
#include "kinora/tensor.hpp"

namespace kinora {

// The last result of each linear layer whose input all tokens share, with that input. Inputs are compared by their
// numbers, because a model may make the same text anew in each forward. Layers with one input share the
// comparison, so that a forward makes one: on a GPU it waits for the device.
class SharedLinears {
 public:
  // What put() received last for this layer, if x has the numbers of its input; else undefined.
  Tensor find(kinora_param layer, const Tensor& x);
  void put(kinora_param layer, const Tensor& x, Tensor result);
  int64_t bytes() const;  // of the results

 private:
  using Input = std::shared_ptr<Tensor>;  // the one that was given last of those with these numbers
  struct Made {
    Input input;
    Tensor result;
  };
  std::map<kinora_param, Made> made_;
};

}  // namespace kinora
