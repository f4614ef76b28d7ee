// Quantises matrices for fp4_oracle.py. Each line of the input is a case:
//   FORM NUMBER ROWS COLS RULE SQUARE HADAMARD STOCHASTIC SWIZZLED COLUMN_MAJOR SEED STREAM FIRST_ROW
//   FIRST_COL INPUT OUTPUT
// FORM: reference, processor or device (its threads run on the processor); NUMBER: float32 or bfloat16; RULE:
// its number in ScaleRule; INPUT: a file of float32, [COLS, ROWS] if COLUMN_MAJOR. OUTPUT gets the global
// scale, the codes, the scales and the decoded matrix as float32.
#include <fstream>
#include <iostream>
#include <string>

#include "kernels/cuda/fp4_on_host.hpp"
#include "kernels/fp4/cases.hpp"

namespace kinora::fp4 {
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
  Quantized q = room_for(n, c.options.swizzled);
  std::vector<T> decoded(x.size());
  uint8_t *codes = q.codes.data(), *scales = q.scales.data();
  if (c.form == "reference") {
    const Amax amax = reference::find_amax(n, x.data(), c.options.hadamard, c.options.column_major);
    q.global = reference::quantize(n, x.data(), c.options, amax.value, codes, scales);
    reference::dequantize(n, codes, scales, c.options.swizzled, q.global, decoded.data());
  } else if (c.form == "processor") {
    const Amax amax = find_amax(n, x.data(), c.options.hadamard, c.options.column_major);
    q.global = quantize(n, x.data(), c.options, amax.value, codes, scales);
    dequantize(n, codes, scales, c.options.swizzled, q.global, decoded.data());
  } else {
    const Amax amax =
        cuda::fp4_tile::amax_on_host(n, x.data(), c.options.hadamard, c.options.column_major, 4);
    q.global = cuda::fp4_tile::quantize_on_host(n, x.data(), c.options, amax.value, codes, scales);
    cuda::fp4_tile::dequantize_on_host(n, codes, scales, c.options.swizzled, q.global, decoded.data());
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] = to_float(decoded[i]);
  std::ofstream out(c.output, std::ios::binary);
  write(out, std::vector<float>{q.global});
  write(out, q.codes);
  write(out, q.scales);
  write(out, values);
}

}  // namespace
}  // namespace kinora::fp4

int main() {
  kinora::fp4::Case c;
  std::string number;
  int rule = 0;
  auto& o = c.options;
  while (std::cin >> c.form >> number >> c.shape.rows >> c.shape.cols >> rule >> o.square >> o.hadamard >>
         o.stochastic >> o.swizzled >> o.column_major >> o.noise.seed >> o.noise.stream >>
         o.noise.first_row >> o.noise.first_col >> c.input >> c.output) {
    o.rule = static_cast<kinora::fp4::ScaleRule>(rule);
    if (number == "float32")
      kinora::fp4::run<float>(c);
    else
      kinora::fp4::run<kinora::fp4::Bfloat16>(c);
  }
}
