// For tests of kernels on a GPU: memory, a fixture that skips where there is none, and times.
#pragma once
#include <cuda_runtime_api.h>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

namespace kinora::cuda {

#define KINORA_CUDA_OK(call) ASSERT_EQ(cudaSuccess, call) << cudaGetErrorString(cudaPeekAtLastError())

template <class T>
class OnDevice {
 public:
  explicit OnDevice(size_t count) : count_(count) {
    if (cudaMalloc(&data_, count * sizeof(T)) != cudaSuccess)
      ADD_FAILURE() << "no device memory for " << count * sizeof(T) << " bytes";
  }
  explicit OnDevice(const std::vector<T>& from) : OnDevice(from.size()) {
    EXPECT_EQ(cudaSuccess, cudaMemcpy(data_, from.data(), bytes(), cudaMemcpyHostToDevice));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(data_); }
  T* data() { return static_cast<T*>(data_); }
  size_t bytes() const { return count_ * sizeof(T); }
  std::vector<T> host() const {
    std::vector<T> out(count_);
    EXPECT_EQ(cudaSuccess, cudaMemcpy(out.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  size_t count_;
  void* data_ = nullptr;
};

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU: " << cudaGetErrorString(error);
  }
};

// The least of several runs.
inline double seconds_of(const std::function<cudaError_t()>& launch) {
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  float least = 1e30f;
  for (int run = 0; run < 20; ++run) {
    cudaEventRecord(start);
    EXPECT_EQ(cudaSuccess, launch());
    cudaEventRecord(stop);
    EXPECT_EQ(cudaSuccess, cudaEventSynchronize(stop));
    float ms = 0;
    cudaEventElapsedTime(&ms, start, stop);
    if (run >= 3 && ms < least) least = ms;
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  return least / 1e3;
}

}  // namespace kinora::cuda
