/* A Vulkan loader in front of the real one ($REAL): the $AT-th call of the function $FAULT, and every later one, returns
   $CODE. With $COUNT it prints how often each function was called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Function)(void);
typedef Function (*Lookup)(void *, const char *);
typedef int (*Call)(void *, void *, void *, void *, void *, void *);

static Lookup of_instance, of_device;
static const char *fault;
static int at, code;

#define FUNCTIONS \
    F(vkCreateInstance) F(vkEnumeratePhysicalDevices) F(vkCreateDevice) F(vkAllocateMemory) F(vkQueueSubmit) \
    F(vkWaitSemaphores) F(vkGetSemaphoreCounterValue) F(vkCreateBuffer) F(vkBindBufferMemory) F(vkMapMemory) \
    F(vkCreateComputePipelines) F(vkCreateShaderModule) F(vkCreateDescriptorPool) F(vkAllocateDescriptorSets) \
    F(vkCreateDescriptorSetLayout) F(vkCreatePipelineLayout) F(vkAllocateCommandBuffers) F(vkBeginCommandBuffer) \
    F(vkEndCommandBuffer) F(vkCreateCommandPool) F(vkResetCommandPool) F(vkCreateFence) F(vkCreateSemaphore) \
    F(vkDeviceWaitIdle) F(vkQueueWaitIdle)

#define F(name) static Call real_##name; static int calls_##name;
FUNCTIONS
#undef F

#define F(name) \
    static int own_##name(void *a, void *b, void *c, void *d, void *e, void *f) { \
        calls_##name++; \
        if (fault && calls_##name >= at && !strcmp(fault, #name)) return code; \
        return real_##name(a, b, c, d, e, f); \
    }
FUNCTIONS
#undef F

static Function wrapped(const char *name, Function real) {
#define F(own) if (real && !strncmp(name, #own, strlen(#own)) && (!name[strlen(#own)] || !strcmp(name + strlen(#own), "KHR"))) { real_##own = (Call)real; return (Function)own_##own; }
    FUNCTIONS
#undef F
    return real;
}

static Function device_function(void *device, const char *name) { return wrapped(name, of_device(device, name)); }

static void print_counts(void) {
#define F(name) if (calls_##name) printf("calls %s %d\n", #name, calls_##name);
    FUNCTIONS
#undef F
    fflush(stdout);
}

__attribute__((constructor)) static void start(void) {
    void *real = dlopen(getenv("REAL"), RTLD_NOW | RTLD_LOCAL);
    if (real) of_instance = (Lookup)dlsym(real, "vkGetInstanceProcAddr");
    fault = getenv("FAULT");
    if (fault) at = atoi(getenv("AT")), code = atoi(getenv("CODE"));
    if (getenv("COUNT")) atexit(print_counts);
}

Function vkGetInstanceProcAddr(void *instance, const char *name) {
    if (!of_instance) return NULL;
    if (!strcmp(name, "vkGetInstanceProcAddr")) return (Function)vkGetInstanceProcAddr;
    Function real = of_instance(instance, name);
    if (real && !strcmp(name, "vkGetDeviceProcAddr")) {
        of_device = (Lookup)real;
        return (Function)device_function;
    }
    return wrapped(name, real);
}
