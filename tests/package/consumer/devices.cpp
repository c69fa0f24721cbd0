// Prints the devices and whether they can be had.
#include <cstdio>
#include <tensorgrad/tensorgrad.hpp>

int main() {
  for (const tensorgrad::Device::Info& device : tensorgrad::Device::list()) {
    std::printf("%s %s %s\n", device.name.c_str(), device.available ? "yes" : "no",
                device.reason.c_str());
  }
}
