// Quantises matrices for fp8_oracle.py. Each line of the input is a case:
//   FORM NUMBER ROWS COLS FORMAT SCALING RULE SWIZZLED COLUMN_MAJOR INPUT OUTPUT
// FORM: reference, processor or device (its threads run on the processor); NUMBER: float32 or bfloat16;
// FORMAT, SCALING and RULE: their numbers in the enumerations of kernels/fp8; INPUT: a file of float32,
// [COLS, ROWS] if COLUMN_MAJOR. OUTPUT gets the codes, the scales and the decoded matrix as float32.
#include <fstream>
#include <iostream>
#include <string>

#include "kernels/cuda/fp8_on_host.hpp"
#include "kernels/fp8/cases.hpp"

namespace kinora::fp8 {
namespace {

struct Case {
  std::string form, input, output;
  Shape shape;
  Options options;
};

template <class T>
void write(std::ofstream& out, const std::vector<T>& data) {
  out.write(reinterpret_cast<const char*>(data.data()),
            static_cast<std::streamsize>(data.size() * sizeof(T)));
}

template <class T>
void run(const Case& c) {
  const Shape& n = c.shape;
  std::vector<float> values(static_cast<size_t>(n.rows * n.cols));
  std::ifstream(c.input, std::ios::binary)
      .read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
  const auto x = as<T>(values);
  Quantized q = room_for(n, c.options);
  std::vector<T> decoded(x.size());
  const float amax = fp4::reference::find_amax(n, x.data(), false).value;
  uint8_t *codes = q.codes.data(), *scales = q.scales.data();
  if (c.form == "reference") {
    reference::quantize(n, x.data(), c.options, amax, codes, scales);
    reference::dequantize(n, codes, scales, c.options, decoded.data());
  } else if (c.form == "processor") {
    quantize(n, x.data(), c.options, amax, codes, scales);
    dequantize(n, codes, scales, c.options, decoded.data());
  } else {
    cuda::fp8_tile::quantize_on_host(n, x.data(), c.options, amax, codes, scales);
    cuda::fp8_tile::dequantize_on_host(n, codes, scales, c.options, decoded.data());
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] = fp4::to_float(decoded[i]);
  std::ofstream out(c.output, std::ios::binary);
  write(out, q.codes);
  write(out, q.scales);
  write(out, values);
}

}  // namespace
}  // namespace kinora::fp8

int main() {
  kinora::fp8::Case c;
  std::string number;
  int format = 0, scaling = 0, rule = 0;
  auto& o = c.options;
  while (std::cin >> c.form >> number >> c.shape.rows >> c.shape.cols >> format >> scaling >> rule >>
         o.swizzled >> o.column_major >> c.input >> c.output) {
    o.format = static_cast<kinora::fp8::Format>(format);
    o.scaling = static_cast<kinora::fp8::Scaling>(scaling);
    o.rule = static_cast<kinora::fp8::ScaleRule>(rule);
    if (number == "float32")
      kinora::fp8::run<float>(c);
    else
      kinora::fp8::run<kinora::fp8::Bfloat16>(c);
  }
}
