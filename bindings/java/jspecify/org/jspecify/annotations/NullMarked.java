package org.jspecify.annotations;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** In this package a type without {@link Nullable} has no null. Declares the annotation of https://jspecify.dev, which
 * Kotlin and checkers of Java know by its name. The package is compiled against this declaration and does not contain
 * it: a program runs without it, and may have the original. */
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.MODULE, ElementType.PACKAGE, ElementType.TYPE, ElementType.METHOD, ElementType.CONSTRUCTOR})
public @interface NullMarked {}
