/* The native methods of Jni.java: memory, and functions that the library calls back. */
#include <jni.h>
#include <realizar.h>
#include <stdlib.h>

static JavaVM *machine;
static jmethodID call;

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved) {
    JNIEnv *env;
    (void)reserved;
    machine = vm;
    if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
    jclass callback = (*env)->FindClass(env, "realizar/Platform$Callback");
    call = callback ? (*env)->GetMethodID(env, callback, "call", "(JJI)I") : NULL;
    return call ? JNI_VERSION_1_6 : JNI_ERR;
}

JNIEXPORT jlong JNICALL Java_realizar_Jni_allocate(JNIEnv *env, jobject self, jlong size) {
    return (intptr_t)calloc(1, size);
}

JNIEXPORT void JNICALL Java_realizar_Jni_free(JNIEnv *env, jobject self, jlong address) {
    free((void *)(intptr_t)address);
}

JNIEXPORT jobject JNICALL Java_realizar_Jni_view(JNIEnv *env, jobject self, jlong address, jlong size) {
    return (*env)->NewDirectByteBuffer(env, (void *)(intptr_t)address, size);
}

JNIEXPORT jlong JNICALL Java_realizar_Jni_address(JNIEnv *env, jclass type, jobject direct) {
    return (intptr_t)(*env)->GetDirectBufferAddress(env, direct);
}

JNIEXPORT jlong JNICALL Java_realizar_Jni_reference(JNIEnv *env, jclass type, jobject callback) {
    return (intptr_t)(*env)->NewGlobalRef(env, callback);
}

JNIEXPORT void JNICALL Java_realizar_Jni_release(JNIEnv *env, jclass type, jlong reference) {
    (*env)->DeleteGlobalRef(env, (jobject)(intptr_t)reference);
}

/* Calls a callback of Java, from a thread that may not be one of the machine's. An exception, which callbacks may not
 * throw, is dropped. */
static int32_t back(void *user, jlong first, jlong second, jint level) {
    JNIEnv *env;
    int is_own = (*machine)->GetEnv(machine, (void **)&env, JNI_VERSION_1_6) == JNI_OK;
#ifdef __ANDROID__
    JNIEnv **attached = &env;
#else
    void **attached = (void **)&env;
#endif
    if (!is_own && (*machine)->AttachCurrentThreadAsDaemon(machine, attached, NULL) != JNI_OK) return 1;
    int32_t result = (*env)->CallIntMethod(env, (jobject)user, call, first, second, level);
    if ((*env)->ExceptionCheck(env)) {
        (*env)->ExceptionClear(env);
        result = 1;
    }
    if (!is_own) (*machine)->DetachCurrentThread(machine);
    return result;
}

static void log_back(int32_t level, const char *message, size_t len, void *user) {
    back(user, (intptr_t)message, len, level);
}

static int32_t progress_back(uint64_t done, uint64_t total, void *user) {
    return back(user, done, total, 0);
}

static int32_t read_back(void *out, size_t n, void *user) {
    return back(user, (intptr_t)out, n, 0);
}

static int32_t write_back(const void *data, size_t n, void *user) {
    return back(user, (intptr_t)data, n, 0);
}

JNIEXPORT jlong JNICALL Java_realizar_Jni_function(JNIEnv *env, jclass type, jint kind) {
    rz_log_callback log = log_back;
    rz_progress_callback progress = progress_back;
    rz_read_callback read = read_back;
    rz_write_callback write = write_back;
    /* In the order of Platform.Kind. */
    intptr_t functions[] = {(intptr_t)log, (intptr_t)progress, (intptr_t)read, (intptr_t)write};
    return functions[kind];
}
