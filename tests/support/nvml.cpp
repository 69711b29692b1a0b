// Stands in for the library of NVIDIA's driver: one GPU, 0000:3B:00.0, that computes 40 % of the
// time and does not say so every third time.
extern "C" {

struct Utilisation {
  unsigned gpu, memory;
};

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  for (const char* wanted = "0000:3B:00.0"; *wanted != '\0'; ++wanted, ++bus) {
    if (*bus != *wanted) return 6;  // not found
  }
  static int one;
  *device = &one;
  return 0;
}

int nvmlDeviceGetUtilizationRates(void* device, Utilisation* now) {
  static int asked;
  if (device == nullptr || ++asked % 3 == 0) return 3;  // not supported
  *now = {40, 10};
  return 0;
}

}  // extern "C"
