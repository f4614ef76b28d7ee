// What every conditional model must hold of its text.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/oracle.hpp"

namespace kinora::test {

// Text of zeros, text that is masked and no text at all are the same: the unconditional prediction. `in` has
// `text` [B, L, D].
template <class Model>
void expect_no_text_is_unconditional(Model& model, core::NamedTensors in) {
  const at::Tensor with = model(in), text = in.at("text");
  auto masked = in, absent = in;
  in["text"] = at::zeros_like(text);
  const at::Tensor zero = model(in);
  masked["text_mask"] = at::zeros({text.size(0), text.size(1)}, at::kBool);
  absent.erase("text");
  EXPECT_GT(difference(with, zero), 1e-3);
  EXPECT_LT(difference(model(masked), zero), 1e-14);
  EXPECT_LT(difference(model(absent), zero), 1e-14);
}

}  // namespace kinora::test
